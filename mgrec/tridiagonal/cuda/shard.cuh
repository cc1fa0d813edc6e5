// The messages of shards of dominant systems: cells of the first and of the last rows of each.
//
// Every rank reads the messages of all shards, and so finds the unknowns at and next to its ends,
// and whether the messages suffice: all ranks find the same, with the bits of the host.
#pragma once
#include "engines/cuda/message.cuh"
#include "tridiagonal/cuda/numbers.cuh"

// Two rows of five numbers, those of `elimination.cuh`.
constexpr int CELL = 10;

// The unknown at an end of a shard plus a multiple of its neighbour, in the next shard.
struct EndRow {
  T neighbour, rhs;
  bool is_alone;  // no other unknown has an effect
};

// As `TridiagonalSystem.join_ends` of the host.
DEVICE inline EndRow join_end(const T* cell, bool is_last, T negligible, T least) {
  const int neighbour = is_last ? 3 : 0, near = is_last ? 2 : 1;
  const int far = 3 - near, beyond = 3 - neighbour;
  const T *upper = cell, *lower = cell + 5;
  T row[5], sizes[5];
  for (int k = 0; k < 5; ++k) {
    const T one = upper[k] * lower[far], other = lower[k] * upper[far];
    row[k] = one - other;
    sizes[k] = fabs(one) + fabs(other);
  }
  const T size = larger(sizes[neighbour], sizes[near]);
  const T largest = larger(fabs(row[neighbour]), fabs(row[near]));
  bool is_alone = largest >= T(0.5) * size && size >= least;
  const T divisor = row[near];
  for (int k = 0; k < 5; ++k) {
    row[k] /= divisor;
    is_alone = is_alone && is_finite(row[k]);
  }
  return {row[neighbour], row[4], is_alone && fabs(row[beyond]) <= negligible};
}

// The row of an end of a column, from a message: pairs of `ends.cuh` if they are JOINED.
DEVICE inline EndRow end_row(const T* rows, long long column, bool is_last, T negligible, T least) {
  if (!JOINED) return join_end(rows + CELL * column, is_last, negligible, least);
  const T* pair = rows + 2 * column;
  return {pair[0], pair[1], is_finite(pair[0]) && is_finite(pair[1])};
}

// Writes of each column the unknown before a shard, its first, its last and the one after it, and in
// `status` 1 if the messages suffice, else 2.
extern "C" __global__ void propagate_kernel(char* start, long long stride, int rank, int size,
                                            long long digest, long long columns, T negligible,
                                            T least, T* known, long long* status) {
  const Messages<T> messages{start, stride};
  bool fails = !messages.agree(size, digest);
  long long column = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (; column < columns && !fails; column += gridDim.x * (long long)blockDim.x) {
    EndRow last = {T(0), T(0), true};
    for (int k = 0; k <= size; ++k) {
      const T* rows = k < size ? messages.of(k).rows : nullptr;
      // The rows of the last unknown before a shard, and of its first one. A system starts and ends
      // without a neighbour. The host has these steps if no coefficient of a neighbour is above 1.
      EndRow first = {T(0), T(0), true};
      if (k < size) first = end_row(rows, column, false, negligible, least);
      if (k == 0) first.neighbour = T(0);
      if (k == size) last.neighbour = T(0);
      const T rhs = first.rhs - first.neighbour * last.rhs;
      const T after = rhs / (T(1) - first.neighbour * last.neighbour);
      const T before = last.rhs - last.neighbour * after;
      fails = fails || !first.is_alone || !last.is_alone || !is_finite(before) ||
              !is_finite(after) || !(fabs(first.neighbour) < 1 && fabs(last.neighbour) <= 1);
      if (k == rank || k == rank + 1) {
        T* const pair = known + 4 * column + 2 * (k - rank);
        pair[0] = before, pair[1] = after;
      }
      if (k < size) last = end_row(rows, columns + column, true, negligible, least);
    }
  }
  if (gridDim.x == 1) report(fails, status);
  else if (fails) messages.of(rank).header->unused[0] = 1;
}
// Reports for all blocks; the header of this rank's message is received again in each exchange.
extern "C" __global__ void report_kernel(char* start, long long stride, int rank, long long* status) {
  const Messages<T> messages{start, stride};
  report(messages.of(rank).header->unused[0] != 0, status);
}

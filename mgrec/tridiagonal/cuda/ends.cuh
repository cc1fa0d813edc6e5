// The first and the last rows of a chunk of many columns, eliminated towards the ends of the chunk.
//
// Rows are eliminated without pivots. Where a pivot is smaller than the next coefficient, a cell
// is nan, and the chunk is reduced by the pivots of `elimination.cuh`.
#pragma once
#include "tridiagonal/cuda/numbers.cuh"

constexpr int AHEAD = 8;  // rows that are loaded at once
constexpr Real NEGLIGIBLE = Real(sizeof(Real) == 4 ? 0x1p-27 : 0x1p-56);

// Each thread has an end of a column: `outer` 0 is that of the first rows. The first row of its cell
// leads from the unknown at the end to that beyond the rows. The second one contains the far unknown
// alone, and is eliminated from the first one. If cells are JOINED, they are pairs: the first row after that.
extern "C" __global__ void __launch_bounds__(THREADS) ends_kernel(const System system) {
  const long long lane = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (lane >= 2 * system.inner) return;
  const bool is_last = lane >= system.inner;
  const long long column = is_last ? lane - system.inner : lane;
  // Coefficients towards the middle, of the row's own unknown, towards the end, and b.
  const T* from[4];
  long long apart[4];
  for (int k = 0; k < 4; ++k) {
    const Operand& operand = system.operands[k == 0 ? (is_last ? 0 : 2) : k == 2 ? (is_last ? 2 : 0) : k];
    from[k] = operand.data + column * operand.inner +
              (is_last ? operand.outer : (system.steps - 1) * operand.step);
    apart[k] = is_last ? operand.step : -operand.step;
  }
  T beyond = T(0), pivot = T(0), outside = T(0), b = T(0);
  bool is_safe = true;
  for (long long start = 0; start < system.steps; start += AHEAD) {
    T rows[AHEAD][4];
#pragma unroll
    for (int r = 0; r < AHEAD; ++r)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        rows[r][k] = start + r < system.steps ? from[k][(start + r) * apart[k]] : T(0);
#pragma unroll
    for (int r = 0; r < AHEAD; ++r) {
      if (start + r >= system.steps) break;
      if (start + r == 0) {
        beyond = rows[r][0], pivot = rows[r][1], b = rows[r][3];
      } else {
        is_safe = is_safe && magnitude(outside) <= magnitude(pivot);
        const T factor = rows[r][0] / pivot;
        pivot = minus_product(rows[r][1], factor, outside);
        beyond = T(0) - factor * beyond;
        b = minus_product(rows[r][3], factor, b);
      }
      outside = rows[r][2];
    }
  }
  if (is_last ? system.has_last : system.has_first) outside = T(0);
  const Real scale = scale_of(magnitude(pivot));
  const T row[4] = {scaled(outside, scale), scaled(pivot, scale), T(0), scaled(beyond, scale)};
  const T bad = is_safe ? T(0) : T(not_a_number<Real>());
  b = scaled(b, scale);
  if (JOINED) {
    // As `join_end` of shard.cuh: the coefficient of the unknown outside, and b.
    const bool is_alone = is_safe && magnitude(row[3] / row[1]) <= NEGLIGIBLE;
    T* pair = system.cells + 2 * lane;
    pair[0] = is_alone ? row[0] / row[1] : T(not_a_number<Real>());
    pair[1] = b / row[1];
    return;
  }
  T* cell = system.cells + 10 * lane;
  for (int k = 0; k < 4; ++k) {
    cell[is_last ? 3 - k : k] = row[k] + bad;
    cell[5 + (is_last ? 3 - k : k)] = k == 2 ? T(1) : T(0);
  }
  cell[4] = b, cell[9] = T(0);
}

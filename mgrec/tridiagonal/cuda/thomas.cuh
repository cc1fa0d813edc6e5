// Systems side by side, one a thread: Gaussian elimination without pivoting (L. H. Thomas, 1949).
//
// The forward sweep computes p and q of every row, x[i] = q[i] - p[i]·x[i+1]; the backward sweep x.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/systems.cuh"

struct Sweep {
  T p = T(0), q = T(0), nonfinite = T(0);

  DEVICE void take(const Equation& row) {
    const T pivot = minus_product(row.b, row.a, p), inverse = T(1) / pivot;
    p = row.c * inverse;
    q = minus_product(row.k, row.a, q) * inverse;
    nonfinite = nonfinite + zero_or_nan(pivot);
  }
  // A pivot of 0, and nan and inf in a, c and k, leave nan or inf in the last q; a pivot of inf
  // does not, and is seen in `nonfinite`.
  DEVICE bool is_sound() const { return is_finite(q) && is_finite(nonfinite); }
};

// The start of back substitution: 0, or nan if a system is singular or contains nan or inf.
DEVICE inline T beyond(const Systems& all, const SystemIndex& system, const Sweep& sweep) {
  if (sweep.is_sound()) return T(0);
  for (long long i = 0; i < all.steps; ++i)
    if (!is_finite(equation(all, system, i))) {
      all.note_nonfinite(system.number);
      return nan_of();
    }
  all.note_singular(system.number);
  return nan_of();
}

// Tiles of ROWS rows of THREADS systems in shared memory; the next tile is loaded while one is
// solved. If systems are contiguous, all threads copy the rows of each. If they are COLUMNS, each
// thread copies its own.
constexpr int STRIDE = ROWS + 1;  // odd: rows of neighbouring threads are in different banks
constexpr int TILE = THREADS * STRIDE;

// The `count` rows of a tile of one array that this thread copies (ROWS if the tile is full), from
// an index of the array to an index of the tile.
struct Track {
  long long memory_index, step;
  int shared_index, count;
};

struct Tiles {
  const Systems& all;
  long long first_system, tile_count;
  SystemIndex system;
  bool is_there;
  int system_count;  // systems of the block

  DEVICE explicit Tiles(const Systems& all)
      : all(all), first_system(blockIdx.x * (long long)THREADS),
        tile_count((all.steps + ROWS - 1) / ROWS), system(all, first_system + threadIdx.x),
        is_there(system.number < all.count()) {
    const long long remaining = all.count() - first_system;
    system_count = remaining < THREADS ? int(remaining) : THREADS;
  }
  DEVICE static T* tile(long long number, int which) {
    return (T*)shared_bytes + (int(number % STAGES) * 4 + which) * TILE;
  }
  DEVICE static int index(int row) {
    return COLUMNS ? row * THREADS + threadIdx.x : threadIdx.x * STRIDE + row;
  }
  DEVICE int length(long long number) const {
    const long long remaining = all.steps - number * ROWS;
    return remaining < ROWS ? int(remaining) : ROWS;
  }
  // p of the rows of a tile, THREADS apart: neighbours are side by side in either layout.
  DEVICE T* stored_p(long long number) const {
    return all.scratch + ((blockIdx.x * all.steps + number * ROWS) * THREADS + threadIdx.x);
  }

  // Neighbouring threads have neighbouring columns, or neighbouring rows of a system. In the second
  // case ROWS threads share a system, and continue with other systems.
  static constexpr int SYSTEMS_AT_ONCE = COLUMNS ? 1 : THREADS / ROWS;
  static constexpr int APART = COLUMNS ? THREADS : SYSTEMS_AT_ONCE * STRIDE;
  DEVICE Track track(long long outer, long long step, long long inner, long long number) const {
    const int rows = length(number);
    const long long first = number * ROWS;
    if (COLUMNS)
      return {system.outer * outer + system.column * inner + first * step, step, int(threadIdx.x),
              is_there ? rows : 0};
    const int row = threadIdx.x % ROWS, lane = threadIdx.x / ROWS;
    return {(first_system + lane) * outer + (first + row) * step, SYSTEMS_AT_ONCE * outer,
            lane * STRIDE + row,
            row < rows ? (system_count - lane + SYSTEMS_AT_ONCE - 1) / SYSTEMS_AT_ONCE : 0};
  }
  template <class Move> DEVICE static void each(Track track, Move move) {
    if (track.count == ROWS) {
#pragma unroll
      for (int k = 0; k < ROWS; ++k, track.memory_index += track.step)
        move(track.memory_index, track.shared_index + k * APART);
    } else {
      for (int k = 0; k < track.count; ++k, track.memory_index += track.step)
        move(track.memory_index, track.shared_index + k * APART);
    }
  }
  DEVICE void load(T* to, const Operand& from, long long number) const {
    each(track(from.outer, from.step, from.inner, number), [&](long long index, int shared_index) {
      copy_word(to + shared_index, from.data + index);
    });
  }
  DEVICE Operand results() const { return {all.result, all.steps * all.inner, all.inner, 1}; }
  DEVICE void store(const T* from, long long number) const {
    const Operand to = results();
    if (!COLUMNS) __syncthreads();
    each(track(to.outer, to.step, to.inner, number),
         [&](long long index, int shared_index) { all.result[index] = from[shared_index]; });
  }
  DEVICE void load_operands(long long number) const {
    if (number < tile_count) {
#pragma unroll
      for (int which = 0; which < 4; ++which) load(tile(number, which), all.operands[which], number);
    }
    copies_commit();
  }
  DEVICE void load_stored_p(long long number) const {
    if (number >= 0) {
      load(tile(number, 3), results(), number);
      T* to = tile(number, 0);
      const T* from = stored_p(number);
      const int rows = length(number);
#pragma unroll 8
      for (int row = 0; row < rows; ++row) copy_word(to + index(row), from + row * THREADS);
    }
    copies_commit();
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) tiles_kernel(const Systems all) {
  const Tiles tiles(all);
  Sweep sweep;
  tiles.load_operands(0);
  for (long long number = 0; number < tiles.tile_count; ++number) {
    tiles.load_operands(number + 1);
    copies_wait();
    __syncthreads();
    T *a = tiles.tile(number, 0), *b = tiles.tile(number, 1);
    T *c = tiles.tile(number, 2), *k = tiles.tile(number, 3), *stored_p = tiles.stored_p(number);
    const int rows = tiles.length(number);
    if (number == 0) a[tiles.index(0)] = T(0);
    if (number == tiles.tile_count - 1) c[tiles.index(rows - 1)] = T(0);
#pragma unroll 8
    for (int row = 0; row < rows; ++row) {
      const int index = tiles.index(row);
      sweep.take({a[index], b[index], c[index], k[index]});
      stored_p[row * THREADS] = sweep.p;
      k[index] = sweep.q;
    }
    tiles.store(k, number);
    __syncthreads();
  }
  T x = tiles.is_there ? beyond(all, tiles.system, sweep) : T(0);
  tiles.load_stored_p(tiles.tile_count - 1);
  for (long long number = tiles.tile_count - 1; number >= 0; --number) {
    tiles.load_stored_p(number - 1);
    copies_wait();
    __syncthreads();
    T *p = tiles.tile(number, 0), *q = tiles.tile(number, 3);
#pragma unroll 8
    for (int row = tiles.length(number) - 1; row >= 0; --row) {
      const int index = tiles.index(row);
      q[index] = x = minus_product(q[index], p[index], x);
    }
    tiles.store(q, number);
    __syncthreads();
  }
}

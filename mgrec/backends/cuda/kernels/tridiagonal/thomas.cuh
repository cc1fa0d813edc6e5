// Systems side by side, one a thread: Gaussian elimination without pivoting (L. H. Thomas, 1949).
//
// The sweep downwards leaves p and q of every row, x[i] = q[i] - p[i]·x[i+1], the sweep upwards x.
#pragma once
#include "memory/copies.cuh"
#include "tridiagonal/systems.cuh"

struct Sweep {
  T p = T(0), q = T(0), odd = T(0);

  DEVICE void take(const Equation& row) {
    const T pivot = minus_product(row.b, row.a, p), inverse = T(1) / pivot;
    p = row.c * inverse;
    q = minus_product(row.k, row.a, q) * inverse;
    odd = odd + odd_part(pivot);
  }
  // A pivot of 0, and nan and inf in a, c and k, leave nan or inf in the last q; a pivot of inf
  // leaves nothing there.
  DEVICE bool is_sound() const { return is_finite(q) && is_finite(odd); }
};

// What the unknown after the last one is taken for: nan makes all nan. Says which are singular.
DEVICE inline T beyond(const Systems& all, const Place& place, const Sweep& sweep) {
  if (sweep.is_sound()) return T(0);
  for (long long i = 0; i < all.steps; ++i)
    if (!is_finite(equation(all, place, i))) {
      all.note_odd(place.number);
      return nan_of();
    }
  all.note_singular(place.number);
  return nan_of();
}

// Every thread reads and writes its own system where it lies.
DEVICE inline void solve_in_memory(const Systems& all) {
  const long long number = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (number >= all.count()) return;
  const Place place(all, number);
  T *result = place.result(all), *kept = all.scratch + (result - all.result);
  Sweep sweep;
  for (long long i = 0; i < all.steps; ++i) {
    sweep.take(equation(all, place, i));
    kept[i * all.inner] = sweep.p;
    result[i * all.inner] = sweep.q;
  }
  T x = beyond(all, place, sweep);
  for (long long i = all.steps - 1; i >= 0; --i)
    result[i * all.inner] = x = minus_product(result[i * all.inner], kept[i * all.inner], x);
}

// Tiles of ROWS rows of THREADS systems in shared memory, the next one under way. Where systems
// are contiguous all threads copy the rows of each; where they are COLUMNS each copies its own.
extern __shared__ __align__(16) unsigned char shared_bytes[];
constexpr int STRIDE = ROWS + 1;  // odd: rows of neighbouring threads are in different banks
constexpr int TILE = THREADS * STRIDE;

struct Tiles {
  const Systems& all;
  long long first_system, tile_count;
  Place own;
  bool is_there;

  DEVICE explicit Tiles(const Systems& all)
      : all(all), first_system(blockIdx.x * (long long)THREADS),
        tile_count((all.steps + ROWS - 1) / ROWS), own(all, first_system + threadIdx.x),
        is_there(own.number < all.count()) {}
  DEVICE static T* tile(long long number, int which) {
    return (T*)shared_bytes + (int(number % STAGES) * 4 + which) * TILE;
  }
  DEVICE static int index(int row) {
    return COLUMNS ? row * THREADS + threadIdx.x : threadIdx.x * STRIDE + row;
  }
  DEVICE int length(long long number) const {
    const long long rest = all.steps - number * ROWS;
    return rest < ROWS ? int(rest) : ROWS;
  }
  // p of a row, by threads: neighbours are side by side in either layout.
  DEVICE T* kept(long long row) const {
    return all.scratch + ((blockIdx.x * all.steps + row) * THREADS + threadIdx.x);
  }

  DEVICE void load(T* to, const Operand& from, long long number) const {
    const int rows = length(number);
    const long long first = number * ROWS;
    if (COLUMNS) {
      const T* start = own.start(from) + first * from.step;
#pragma unroll 8
      for (int row = 0; row < ROWS; ++row)
        if (is_there && row < rows) copy_word(to + index(row), start + row * from.step);
      return;
    }
    const int row = threadIdx.x % ROWS;
    constexpr int TOGETHER = THREADS / ROWS;  // systems
    const T* start = from.data + (first + row) * from.step;
#pragma unroll 8
    for (int turn = 0; turn < ROWS; ++turn) {
      const int lane = turn * TOGETHER + threadIdx.x / ROWS;
      const long long system = first_system + lane;
      if (system < all.outer && row < rows)
        copy_word(to + lane * STRIDE + row, start + system * from.outer);
    }
  }
  DEVICE void store(const T* from, long long number) const {
    const int rows = length(number);
    const long long first = number * ROWS;
    if (COLUMNS) {
      T* start = own.result(all) + first * all.inner;
#pragma unroll 8
      for (int row = 0; row < ROWS; ++row)
        if (is_there && row < rows) start[row * all.inner] = from[index(row)];
      return;
    }
    const int row = threadIdx.x % ROWS;
    constexpr int TOGETHER = THREADS / ROWS;
    __syncthreads();
#pragma unroll 8
    for (int turn = 0; turn < ROWS; ++turn) {
      const int lane = turn * TOGETHER + threadIdx.x / ROWS;
      const long long system = first_system + lane;
      if (system < all.outer && row < rows)
        all.result[system * all.steps + first + row] = from[lane * STRIDE + row];
    }
  }
  DEVICE void load_operands(long long number) const {
    if (number < tile_count)
      for (int which = 0; which < 4; ++which) load(tile(number, which), all.operands[which], number);
    copies_commit();
  }
  DEVICE void load_kept(long long number) const {
    if (number >= 0) {
      const Operand q = {all.result, all.steps * all.inner, all.inner, 1};
      load(tile(number, 3), q, number);
      for (int row = 0; row < length(number); ++row)
        copy_word(tile(number, 0) + index(row), kept(number * ROWS + row));
    }
    copies_commit();
  }
};

DEVICE inline void solve_in_tiles(const Systems& all) {
  const Tiles tiles(all);
  Sweep sweep;
  tiles.load_operands(0);
  for (long long number = 0; number < tiles.tile_count; ++number) {
    tiles.load_operands(number + 1);
    copies_wait();
    __syncthreads();
    T *a = tiles.tile(number, 0), *b = tiles.tile(number, 1);
    T *c = tiles.tile(number, 2), *k = tiles.tile(number, 3);
    const int rows = tiles.length(number);
    if (number == 0) a[tiles.index(0)] = T(0);
    if (number == tiles.tile_count - 1) c[tiles.index(rows - 1)] = T(0);
#pragma unroll 8
    for (int row = 0; row < rows; ++row) {
      const int at = tiles.index(row);
      sweep.take({a[at], b[at], c[at], k[at]});
      *tiles.kept(number * ROWS + row) = sweep.p;
      k[at] = sweep.q;
    }
    tiles.store(k, number);
    __syncthreads();
  }
  T x = tiles.is_there ? beyond(all, tiles.own, sweep) : T(0);
  tiles.load_kept(tiles.tile_count - 1);
  for (long long number = tiles.tile_count - 1; number >= 0; --number) {
    tiles.load_kept(number - 1);
    copies_wait();
    __syncthreads();
    T *p = tiles.tile(number, 0), *q = tiles.tile(number, 3);
#pragma unroll 8
    for (int row = tiles.length(number) - 1; row >= 0; --row) {
      const int at = tiles.index(row);
      q[at] = x = minus_product(q[at], p[at], x);
    }
    tiles.store(q, number);
    __syncthreads();
  }
}

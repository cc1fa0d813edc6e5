// Banded systems with LOWER diagonals below the main one and UPPER above it, or of BLOCK × BLOCK blocks.
//
// Each thread eliminates a whole system with pivots, or a partition by reflections: see cpu.py. Cells
// are the equations of a partition, or of several, in the interfaces before and after it. A step has
// BLOCK rows, and coefficients of COLUMNS unknowns.
#pragma once
#include "tridiagonal/cuda/numbers.cuh"

constexpr int WIDE = LOWER + UPPER, EQUATION = 2 * WIDE + 1, CELL = WIDE * EQUATION;
constexpr int COLUMNS = WIDE + BLOCK, OPERANDS = BLOCK > 1 ? 4 : WIDE + 2;
constexpr int ROW = COLUMNS + 1;  // numbers of a pivot row: the inverse pivot, coefficients, and b

struct Chunk {
  Operand operands[OPERANDS];  // the diagonals, or those of blocks, and b
  T* result;
  T* scratch;         // pivot rows, those of a thread as far apart as there are threads
  T* cells;           // (system, part, WIDE, EQUATION)
  const T* values;    // (system, part or the end, WIDE)
  long long* status;  // the first singular system; whether all operands are finite
  long long outer, steps, inner, parts, length, before, after;
};

DEVICE inline Real squared(Real x) { return x * x; }
template <class R> DEVICE inline R squared(complex<R> x) { return x.re * x.re + x.im * x.im; }
DEVICE inline bool is_nan(Real x) { return x != x; }
template <class R> DEVICE inline bool is_nan(complex<R> x) { return x.re != x.re || x.im != x.im; }

// Exchange a row for that of the largest coefficient in a column, of the rows from it.
template <int COUNT, int COUNT_OF>
DEVICE inline Real exchange(T (&rows)[COUNT][COUNT_OF], int first, int column) {
  constexpr int TIMES = BLOCK == 1 && COUNT <= WIDE + 1 ? COUNT_OF : 1;
  Real size = magnitude(rows[first][column]);
#pragma unroll TIMES
  for (int r = first + 1; r < COUNT; ++r) {
    const bool is_larger = magnitude(rows[r][column]) > size;
    if (is_larger) size = magnitude(rows[r][column]);
#pragma unroll TIMES
    for (int c = column; c < COUNT_OF; ++c) {
      const T one = rows[first][c], other = rows[r][c];
      rows[first][c] = is_larger ? other : one;
      rows[r][c] = is_larger ? one : other;
    }
  }
  return size;
}

// Eliminate a column from the rows after `first` by a reflection; return the size of the pivot.
template <int COUNT, int COUNT_OF>
DEVICE inline Real reflect(T (&rows)[COUNT][COUNT_OF], int first, int column) {
  constexpr int TIMES = BLOCK == 1 && COUNT <= WIDE + 1 ? COUNT_OF : 1;
  const Real size = exchange(rows, first, column), scale = scale_of(size);
  if (!(size > Real(0))) return size;
  T vector[COUNT];
  Real total = Real(0);
#pragma unroll TIMES
  for (int r = first; r < COUNT; ++r) {
    vector[r] = scaled(rows[r][column], scale);
    total += squared(vector[r]);
  }
  const Real norm = sqrt(total), modulus = sqrt(squared(vector[first]));
  const T phase = scaled(vector[first], Real(1) / modulus);
  vector[first] = vector[first] + scaled(phase, norm);
  const Real beta = Real(1) / (norm * (norm + modulus));
  rows[first][column] = scaled(T(0) - phase, norm / scale);
#pragma unroll TIMES
  for (int c = column + 1; c < COUNT_OF; ++c) {
    T product = T(0);
#pragma unroll TIMES
    for (int r = first; r < COUNT; ++r) product = product + conjugate_of(vector[r]) * rows[r][c];
    product = scaled(product, beta);
#pragma unroll TIMES
    for (int r = first; r < COUNT; ++r) rows[r][c] = rows[r][c] - vector[r] * product;
  }
  return size;
}

// The rows of a partition, or of a whole system.
struct Part {
  const Chunk& chunk;
  long long system, outer, column, number, first, last, before, after;
  T nan_seen = T(0);
  Real least = Real(1);

  DEVICE Part(const Chunk& chunk, long long index) : chunk(chunk) {
    system = index / chunk.parts, number = index - system * chunk.parts;
    outer = system / chunk.inner, column = system - outer * chunk.inner;
    first = number * chunk.length;
    const long long stop = first + chunk.length;
    last = (stop < chunk.steps ? stop : chunk.steps) - first - 1;
    // Rows of the system before and after the partition.
    before = chunk.before + first * BLOCK, after = chunk.after + (chunk.steps - first - last - 1) * BLOCK;
  }
  // Number k of a step of an operand, which has `count` of them.
  DEVICE T at(int operand, long long i, int k, int count) const {
    const Operand& from = chunk.operands[operand];
    return from.data[(outer * from.outer + (first + i) * from.step + column * from.inner) * count + k];
  }
  DEVICE T coefficient(long long i, int r, int k) const {
    if (BLOCK == 1) return at(k, i, 0, 1);
    return at(k / BLOCK, i, r * BLOCK + k % BLOCK, BLOCK * BLOCK);
  }
  // Unknown `row` of the partition.
  DEVICE T& result(long long row) const {
    const long long step = (outer * chunk.steps + first + row / BLOCK) * chunk.inner + column;
    return chunk.result[step * BLOCK + row % BLOCK];
  }
  // Write the scaled coefficients of row r of step i, 0 outside of the matrix; return b.
  template <int COUNT> DEVICE T load(T (&row)[COUNT], long long i, int r) {
    Real size = Real(0);
    T total = T(0);
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) {
      const long long unknown = i * BLOCK + k - LOWER;
      const bool is_inside = unknown >= -before && unknown < (last + 1) * BLOCK + after;
      row[k] = is_inside ? coefficient(i, r, k) : T(0);
      size = larger(magnitude(row[k]), size);
      total = total + zero_or_nan(row[k]);
    }
    const T b = at(OPERANDS - 1, i, r, BLOCK);
    nan_seen = nan_seen + (total + zero_or_nan(b));
    if (size < least) least = size;
    const Real scale = scale_of(size);
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) row[k] = scaled(row[k], scale);
    return scaled(b, scale);
  }
};

DEVICE inline long long thread_index() { return blockIdx.x * (long long)THREADS + threadIdx.x; }

// Write pivot row p of those of a step: its unknown is `row`.
template <int COUNT, int COUNT_OF>
DEVICE inline void store_pivot(T* scratch, long long apart, const T (&rows)[COUNT][COUNT_OF], int p, long long row) {
  T* to = scratch + row * ROW * apart;
  to[0] = T(1) / rows[p][p];
  for (int k = 1; k < COLUMNS; ++k) to[k * apart] = k + p < COLUMNS ? rows[p][k + p] : T(0);
  to[(ROW - 1) * apart] = rows[p][COUNT_OF - 1];
}
// Move the rows after the pivot rows to the first ones, and their unknowns.
template <int COUNT, int COUNT_OF> DEVICE inline void move_rows(T (&rows)[COUNT][COUNT_OF]) {
#pragma unroll
  for (int r = 0; r + BLOCK < COUNT; ++r)
#pragma unroll
    for (int c = 0; c < COUNT_OF; ++c)
      rows[r][c] = c < WIDE ? rows[r + BLOCK][c + BLOCK] : c < COLUMNS ? T(0) : rows[r + BLOCK][c];
}

// Write x[last] … x[first], each from its pivot row and the unknowns after it.
template <class Store>
DEVICE inline void substitute_back(
    const T* scratch, long long apart, T (&later)[COLUMNS], long long first, long long last, Store store) {
  for (long long i = last; i >= first; --i) {
    const T* row = scratch + i * ROW * apart;
    T x = row[(ROW - 1) * apart];
#pragma unroll
    for (int k = 1; k < COLUMNS; ++k) x = x - row[k * apart] * later[k - 1];
    x = x * row[0];
#pragma unroll
    for (int k = COLUMNS - 1; k > 0; --k) later[k] = later[k - 1];
    later[0] = x;
    store(i, x);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) whole_kernel(const Chunk chunk) {
  const long long index = thread_index(), apart = chunk.outer * chunk.inner;
  if (index >= apart) return;
  Part part(chunk, index);
  T* scratch = chunk.scratch + index;
  const long long count = (part.last + 1) * BLOCK;
  T rows[LOWER + BLOCK][ROW] = {};
  // The unknowns before the system are 0, and are eliminated first.
#pragma unroll
  for (int r = 0; r < LOWER; ++r) rows[r][r] = T(1);
  for (long long i = 0; i * BLOCK < count + LOWER; ++i) {
    for (int r = 0; r < BLOCK; ++r) {
      T loaded[ROW] = {};
      if (i <= part.last) loaded[ROW - 1] = part.load(loaded, i, r);
#pragma unroll
      for (int c = 0; c < ROW; ++c) rows[LOWER + r][c] = loaded[c];
    }
    for (int p = 0; p < BLOCK; ++p) {
      const Real size = exchange(rows, p, p);
      if (size < part.least) part.least = size;
      const T pivot = rows[p][p];
#pragma unroll
      for (int r = 1; r < LOWER + BLOCK; ++r) {
        if (r <= p) continue;
        const T factor = rows[r][p] / pivot;
#pragma unroll
        for (int c = 1; c < ROW; ++c)
          if (c > p) rows[r][c] = minus_product(rows[r][c], factor, rows[p][c]);
      }
      const long long row = i * BLOCK + p - LOWER;
      if (row >= 0) store_pivot(scratch, apart, rows, p, row);
    }
    move_rows(rows);
  }
  const bool has_nan = is_nan(part.nan_seen);
  if (has_nan) chunk.status[1] = 0;
  else if (!(part.least > Real(0)))
    atomicMin((unsigned long long*)chunk.status, (unsigned long long)part.system);
  T later[COLUMNS] = {};
  const T nan_seen = has_nan ? T(not_a_number<Real>()) : T(0);
  substitute_back(scratch, apart, later, 0, count - 1, [&](long long i, T x) { part.result(i) = x + nan_seen; });
}

extern "C" __global__ void __launch_bounds__(THREADS) reduce_kernel(const Chunk chunk) {
  const long long index = thread_index();
  if (index >= chunk.outer * chunk.inner * chunk.parts) return;
  Part part(chunk, index);
  constexpr int COUNT_OF = COLUMNS + WIDE + 1;
  T rows[COLUMNS][COUNT_OF] = {};
  // The unknowns that are eliminated first are those of the interface before.
#pragma unroll
  for (int r = 0; r < WIDE; ++r) rows[r][r] = T(1), rows[r][COLUMNS + r] = T(-1);
  for (long long i = 0; i <= part.last; ++i) {
    for (int r = WIDE; r < COLUMNS; ++r) {
#pragma unroll
      for (int c = COLUMNS; c < COUNT_OF; ++c) rows[r][c] = T(0);
      rows[r][COUNT_OF - 1] = part.load(rows[r], i, r - WIDE);
    }
    for (int p = 0; p < BLOCK; ++p) {
      const Real size = reflect(rows, p, p);
      if (size < part.least) part.least = size;
    }
    move_rows(rows);
  }
  const T nan_seen = is_nan(part.nan_seen) ? T(not_a_number<Real>()) : T(0);
  T* cell = chunk.cells + index * CELL;
#pragma unroll
  for (int r = 0; r < WIDE; ++r)
#pragma unroll
    for (int c = 0; c < EQUATION; ++c) {
      const T number = c < WIDE ? rows[r][COLUMNS + c] : rows[r][c < 2 * WIDE ? c - WIDE : COUNT_OF - 1];
      cell[r * EQUATION + c] = (part.least > Real(0) ? number : T(0)) + nan_seen;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) substitute_kernel(const Chunk chunk) {
  const long long index = thread_index(), apart = chunk.outer * chunk.inner * chunk.parts;
  if (index >= apart) return;
  Part part(chunk, index);
  T* scratch = chunk.scratch + index;
  const T* known = chunk.values + (part.system * (chunk.parts + 1) + part.number) * WIDE;
  const long long count = (part.last + 1) * BLOCK;
  T rows[COLUMNS][ROW] = {};
  for (long long i = 0; i <= part.last; ++i) {
    for (int r = WIDE; r < COLUMNS; ++r) {
      T b = part.load(rows[r], i, r - WIDE);
#pragma unroll
      for (int k = 0; k < WIDE; ++k)
        if (k + i * BLOCK < WIDE) {
          b = minus_product(b, rows[r][k], known[k + i * BLOCK]);
          rows[r][k] = T(0);
        }
      rows[r][ROW - 1] = b;
    }
    for (int p = 0; p < BLOCK; ++p) {
      reflect(rows, p, p);
      store_pivot(scratch, apart, rows, p, i * BLOCK + p);
    }
    move_rows(rows);
  }
  // Unknown j of the partition is number LOWER + j from the first of the interface before.
  T later[COLUMNS] = {};
#pragma unroll
  for (int k = 0; k < WIDE; ++k) {
    later[k] = known[WIDE + k];
    const long long position = count + k - LOWER;
    if (position >= 0 && position < count) part.result(position) = later[k];
  }
  substitute_back(scratch, apart, later, WIDE, count - 1, [&](long long i, T x) { part.result(i - LOWER) = x; });
#pragma unroll
  for (int k = LOWER; k < WIDE; ++k)
    if (k - LOWER < count) part.result(k - LOWER) = known[k];
}

// Cells that are merged to one for each group of GROUP cells, and the values at their interfaces.
struct Level {
  T* cells;
  T* merged;
  const T* known;  // the values at the ends of groups (system, group or the end, WIDE)
  T* values;       // those at all interfaces (system, part or the end, WIDE)
  long long systems, parts, groups;
};

// Write the rows of a cell below the pending rows, scaled; return the largest coefficient.
template <int COUNT_OF> DEVICE inline Real load_cell(T (&block)[2 * WIDE][COUNT_OF], const T* cell, T& nan_seen) {
  Real most = Real(0);
  for (int r = 0; r < WIDE; ++r) {
    Real size = Real(0);
    for (int c = 0; c < 2 * WIDE; ++c) size = larger(magnitude(cell[r * EQUATION + c]), size);
    const Real scale = scale_of(size);
    most = larger(size, most);
    for (int c = 0; c < COUNT_OF; ++c) block[WIDE + r][c] = T(0);
    for (int c = 0; c < 2 * WIDE; ++c) block[WIDE + r][c] = scaled(cell[r * EQUATION + c], scale);
    block[WIDE + r][COUNT_OF - 1] = scaled(cell[r * EQUATION + 2 * WIDE], scale);
    nan_seen = nan_seen + zero_or_nan(cell[r * EQUATION + 2 * WIDE]);
  }
  return most;
}
// Eliminate an interface, and move the rows after the pivot rows to the first ones.
template <int COUNT_OF> DEVICE inline Real eliminate_interface(T (&block)[2 * WIDE][COUNT_OF], T* pivots, Real least) {
  for (int k = 0; k < WIDE; ++k) {
    const Real size = reflect(block, k, k);
    if (size < least) least = size;
  }
  for (int r = 0; r < WIDE; ++r)
    for (int c = 0; c < COUNT_OF; ++c) {
      if (pivots != nullptr) pivots[r * EQUATION + c] = block[r][c];
      if (c < WIDE) block[r][c] = block[WIDE + r][WIDE + c];
      else block[r][c] = c < 2 * WIDE ? T(0) : block[WIDE + r][c];
    }
  return least;
}

extern "C" __global__ void __launch_bounds__(THREADS) merge_kernel(const Level level) {
  const long long index = thread_index();
  if (index >= level.systems * level.groups) return;
  const long long system = index / level.groups, start = (index - system * level.groups) * GROUP;
  constexpr int COUNT_OF = 3 * WIDE + 1;
  T block[2 * WIDE][COUNT_OF] = {}, nan_seen = T(0);
  Real least = Real(1);
  for (int r = 0; r < WIDE; ++r) block[r][r] = T(1), block[r][2 * WIDE + r] = T(-1);
  for (long long part = start; part < start + GROUP && part < level.parts; ++part) {
    const Real most = load_cell(block, level.cells + (system * level.parts + part) * CELL, nan_seen);
    least = eliminate_interface(block, nullptr, most < least ? most : least);
  }
  if (is_nan(nan_seen)) nan_seen = T(not_a_number<Real>());
  for (int r = 0; r < WIDE; ++r)
    for (int c = 0; c < EQUATION; ++c) {
      const T number = block[r][c < WIDE ? 2 * WIDE + c : c < 2 * WIDE ? c - WIDE : COUNT_OF - 1];
      level.merged[index * CELL + r * EQUATION + c] = (least > Real(0) ? number : T(0)) + nan_seen;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) open_kernel(const Level level) {
  const long long index = thread_index();
  if (index >= level.systems * level.groups) return;
  const long long system = index / level.groups, group = index - system * level.groups;
  const long long start = group * GROUP;
  const T* known = level.known + (system * (level.groups + 1) + group) * WIDE;
  T block[2 * WIDE][EQUATION] = {}, later[WIDE], nan_seen = T(0);
  for (int r = 0; r < WIDE; ++r) block[r][r] = T(1), block[r][EQUATION - 1] = known[r];
  long long part = start;
  for (; part < start + GROUP && part < level.parts; ++part) {
    T* cell = level.cells + (system * level.parts + part) * CELL;
    load_cell(block, cell, nan_seen);
    eliminate_interface(block, cell, Real(1));
  }
  T* to = level.values + (system * (level.parts + 1) + part) * WIDE;
  for (int r = 0; r < WIDE; ++r) later[r] = known[WIDE + r];
  // The first interface of the next group is written by that group.
  for (int r = 0; r < WIDE && part == level.parts; ++r) to[r] = later[r];
  for (--part; part >= start; --part) {
    to -= WIDE;
    const T* rows = level.cells + (system * level.parts + part) * CELL;
    T now[WIDE];
    for (int r = WIDE - 1; r >= 0; --r) {
      const T* row = rows + r * EQUATION;
      T total = row[EQUATION - 1];
      for (int c = r + 1; c < WIDE; ++c) total = total - row[c] * now[c];
      for (int c = 0; c < WIDE; ++c) total = total - row[WIDE + c] * later[c];
      now[r] = total / row[r];
    }
    for (int r = 0; r < WIDE; ++r) to[r] = later[r] = part == start ? known[r] : now[r];
  }
}

// Banded systems with LOWER diagonals below the main one and UPPER above it.
//
// Each thread eliminates a whole system with pivots, or a partition by reflections: see cpu.py. Cells
// are the equations of a partition, or of several, in the interfaces before and after it.
#pragma once
#include "tridiagonal/cuda/numbers.cuh"

constexpr int WIDE = LOWER + UPPER, EQUATION = 2 * WIDE + 1, CELL = WIDE * EQUATION;
constexpr int ROW = WIDE + 2;  // numbers of a pivot row: the inverse pivot, coefficients, and b

struct Chunk {
  Operand operands[WIDE + 2];  // the diagonals and b
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
template <int COUNT, int COLUMNS>
DEVICE inline Real exchange(T (&rows)[COUNT][COLUMNS], int first, int column) {
  constexpr int TIMES = COUNT <= WIDE + 1 ? COLUMNS : 1;
  Real size = magnitude(rows[first][column]);
#pragma unroll TIMES
  for (int r = first + 1; r < COUNT; ++r) {
    const bool is_larger = magnitude(rows[r][column]) > size;
    if (is_larger) size = magnitude(rows[r][column]);
#pragma unroll TIMES
    for (int c = column; c < COLUMNS; ++c) {
      const T one = rows[first][c], other = rows[r][c];
      rows[first][c] = is_larger ? other : one;
      rows[r][c] = is_larger ? one : other;
    }
  }
  return size;
}

// Eliminate a column from the rows after `first` by a reflection; return the size of the pivot.
template <int COUNT, int COLUMNS>
DEVICE inline Real reflect(T (&rows)[COUNT][COLUMNS], int first, int column) {
  constexpr int TIMES = COUNT <= WIDE + 1 ? COLUMNS : 1;
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
  for (int c = column + 1; c < COLUMNS; ++c) {
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
    before = chunk.before + first, after = chunk.after + chunk.steps - first - last - 1;
  }
  DEVICE T at(int k, long long i) const {
    const Operand& from = chunk.operands[k];
    return from.data[outer * from.outer + (first + i) * from.step + column * from.inner];
  }
  DEVICE T& result(long long i) const {
    return chunk.result[(outer * chunk.steps + first + i) * chunk.inner + column];
  }
  // Write the scaled coefficients of row i, 0 outside of the matrix; return b.
  template <int COLUMNS> DEVICE T load(T (&row)[COLUMNS], long long i) {
    Real size = Real(0);
    T total = T(0);
#pragma unroll
    for (int k = 0; k <= WIDE; ++k) {
      const int offset = k - LOWER;
      const bool is_inside = i + offset >= -before && i + offset <= last + after;
      row[k] = is_inside ? at(k, i) : T(0);
      size = larger(magnitude(row[k]), size);
      total = total + zero_or_nan(row[k]);
    }
    const T b = at(WIDE + 1, i);
    nan_seen = nan_seen + (total + zero_or_nan(b));
    if (size < least) least = size;
    const Real scale = scale_of(size);
#pragma unroll
    for (int k = 0; k <= WIDE; ++k) row[k] = scaled(row[k], scale);
    return scaled(b, scale);
  }
};

DEVICE inline long long thread_index() { return blockIdx.x * (long long)THREADS + threadIdx.x; }

// Write x[last] … x[first], each from its pivot row and the WIDE unknowns after it.
template <class Store>
DEVICE inline void substitute_back(
    const T* scratch, long long apart, T (&later)[WIDE], long long first, long long last, Store store) {
  for (long long i = last; i >= first; --i) {
    const T* row = scratch + i * ROW * apart;
    T x = row[(ROW - 1) * apart];
#pragma unroll
    for (int k = 0; k < WIDE; ++k) x = x - row[(k + 1) * apart] * later[k];
    x = x * row[0];
#pragma unroll
    for (int k = WIDE - 1; k > 0; --k) later[k] = later[k - 1];
    later[0] = x;
    store(i, x);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) whole_kernel(const Chunk chunk) {
  const long long index = thread_index(), apart = chunk.outer * chunk.inner;
  if (index >= apart) return;
  Part part(chunk, index);
  T* scratch = chunk.scratch + index;
  T rows[LOWER + 1][ROW] = {};
  for (long long i = -LOWER; i <= part.last; ++i) {
    const long long row = i + LOWER;
    const int target = row < LOWER ? int(row) : LOWER;
    T loaded[ROW] = {};
    if (row <= part.last) loaded[ROW - 1] = part.load(loaded, row);
    // The first rows begin with coefficients outside of the matrix.
#pragma unroll
    for (int r = 0; r <= LOWER; ++r)
#pragma unroll
      for (int c = 0; c < ROW && r == target; ++c)
        rows[r][c] = c == ROW - 1 ? loaded[c] : c + LOWER - r <= WIDE ? loaded[c + LOWER - r] : T(0);
    if (i < 0) continue;
    const Real size = exchange(rows, 0, 0);
    if (size < part.least) part.least = size;
    const T pivot = rows[0][0];
    T* to = scratch + i * ROW * apart;
    to[0] = T(1) / pivot;
#pragma unroll
    for (int c = 1; c < ROW; ++c) to[c * apart] = rows[0][c];
#pragma unroll
    for (int r = 1; r <= LOWER; ++r) {
      const T factor = rows[r][0] / pivot;
      T next[ROW] = {};
#pragma unroll
      for (int c = 1; c < ROW; ++c)
        next[c < ROW - 1 ? c - 1 : c] = minus_product(rows[r][c], factor, to[c * apart]);
#pragma unroll
      for (int c = 0; c < ROW; ++c) rows[r - 1][c] = next[c];
    }
  }
  const bool has_nan = is_nan(part.nan_seen);
  if (has_nan) chunk.status[1] = 0;
  else if (!(part.least > Real(0)))
    atomicMin((unsigned long long*)chunk.status, (unsigned long long)part.system);
  T later[WIDE] = {};
  const T nan_seen = has_nan ? T(not_a_number<Real>()) : T(0);
  substitute_back(scratch, apart, later, 0, part.last,
                  [&](long long i, T x) { part.result(i) = x + nan_seen; });
}

extern "C" __global__ void __launch_bounds__(THREADS) reduce_kernel(const Chunk chunk) {
  const long long index = thread_index();
  if (index >= chunk.outer * chunk.inner * chunk.parts) return;
  Part part(chunk, index);
  constexpr int COLUMNS = 2 * WIDE + 2;
  T rows[WIDE + 1][COLUMNS] = {};
  // The unknowns that are eliminated first are those of the interface before.
#pragma unroll
  for (int r = 0; r < WIDE; ++r) rows[r][r] = T(1), rows[r][WIDE + 1 + r] = T(-1);
  for (long long i = 0; i <= part.last; ++i) {
#pragma unroll
    for (int c = WIDE + 1; c < COLUMNS; ++c) rows[WIDE][c] = T(0);
    rows[WIDE][COLUMNS - 1] = part.load(rows[WIDE], i);
    const Real size = reflect(rows, 0, 0);
    if (size < part.least) part.least = size;
#pragma unroll
    for (int r = 0; r < WIDE; ++r) {
#pragma unroll
      for (int c = 0; c < WIDE; ++c) rows[r][c] = rows[r + 1][c + 1];
      rows[r][WIDE] = T(0);
#pragma unroll
      for (int c = WIDE + 1; c < COLUMNS; ++c) rows[r][c] = rows[r + 1][c];
    }
  }
  const T nan_seen = is_nan(part.nan_seen) ? T(not_a_number<Real>()) : T(0);
  T* cell = chunk.cells + index * CELL;
#pragma unroll
  for (int r = 0; r < WIDE; ++r)
#pragma unroll
    for (int c = 0; c < EQUATION; ++c) {
      const T number = c < WIDE ? rows[r][WIDE + 1 + c] : rows[r][c < 2 * WIDE ? c - WIDE : COLUMNS - 1];
      cell[r * EQUATION + c] = (part.least > Real(0) ? number : T(0)) + nan_seen;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) substitute_kernel(const Chunk chunk) {
  const long long index = thread_index(), apart = chunk.outer * chunk.inner * chunk.parts;
  if (index >= apart) return;
  Part part(chunk, index);
  T* scratch = chunk.scratch + index;
  const T* known = chunk.values + (part.system * (chunk.parts + 1) + part.number) * WIDE;
  T rows[WIDE + 1][ROW] = {};
  for (long long i = 0; i <= part.last; ++i) {
    T b = part.load(rows[WIDE], i);
#pragma unroll
    for (int k = 0; k < WIDE; ++k)
      if (k + i < WIDE) {
        b = minus_product(b, rows[WIDE][k], known[k + i]);
        rows[WIDE][k] = T(0);
      }
    rows[WIDE][ROW - 1] = b;
    reflect(rows, 0, 0);
    T* to = scratch + i * ROW * apart;
    to[0] = T(1) / rows[0][0];
#pragma unroll
    for (int c = 1; c < ROW; ++c) to[c * apart] = rows[0][c];
#pragma unroll
    for (int r = 0; r < WIDE; ++r) {
#pragma unroll
      for (int c = 0; c < WIDE; ++c) rows[r][c] = rows[r + 1][c + 1];
      rows[r][WIDE] = T(0);
      rows[r][ROW - 1] = rows[r + 1][ROW - 1];
    }
  }
  // Unknown j of the partition is number LOWER + j from the first of the interface before.
  T later[WIDE];
#pragma unroll
  for (int k = 0; k < WIDE; ++k) {
    later[k] = known[WIDE + k];
    const long long position = part.last + 1 + k - LOWER;
    if (position >= 0 && position <= part.last) part.result(position) = later[k];
  }
  substitute_back(scratch, apart, later, WIDE, part.last,
                  [&](long long i, T x) { part.result(i - LOWER) = x; });
#pragma unroll
  for (int k = LOWER; k < WIDE; ++k)
    if (k - LOWER <= part.last) part.result(k - LOWER) = known[k];
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
template <int COLUMNS> DEVICE inline Real load_cell(T (&block)[2 * WIDE][COLUMNS], const T* cell, T& nan_seen) {
  Real most = Real(0);
  for (int r = 0; r < WIDE; ++r) {
    Real size = Real(0);
    for (int c = 0; c < 2 * WIDE; ++c) size = larger(magnitude(cell[r * EQUATION + c]), size);
    const Real scale = scale_of(size);
    most = larger(size, most);
    for (int c = 0; c < COLUMNS; ++c) block[WIDE + r][c] = T(0);
    for (int c = 0; c < 2 * WIDE; ++c) block[WIDE + r][c] = scaled(cell[r * EQUATION + c], scale);
    block[WIDE + r][COLUMNS - 1] = scaled(cell[r * EQUATION + 2 * WIDE], scale);
    nan_seen = nan_seen + zero_or_nan(cell[r * EQUATION + 2 * WIDE]);
  }
  return most;
}
// Eliminate an interface, and move the rows after the pivot rows to the first ones.
template <int COLUMNS> DEVICE inline Real eliminate_interface(T (&block)[2 * WIDE][COLUMNS], T* pivots, Real least) {
  for (int k = 0; k < WIDE; ++k) {
    const Real size = reflect(block, k, k);
    if (size < least) least = size;
  }
  for (int r = 0; r < WIDE; ++r)
    for (int c = 0; c < COLUMNS; ++c) {
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
  constexpr int COLUMNS = 3 * WIDE + 1;
  T block[2 * WIDE][COLUMNS] = {}, nan_seen = T(0);
  Real least = Real(1);
  for (int r = 0; r < WIDE; ++r) block[r][r] = T(1), block[r][2 * WIDE + r] = T(-1);
  for (long long part = start; part < start + GROUP && part < level.parts; ++part) {
    const Real most = load_cell(block, level.cells + (system * level.parts + part) * CELL, nan_seen);
    least = eliminate_interface(block, nullptr, most < least ? most : least);
  }
  if (is_nan(nan_seen)) nan_seen = T(not_a_number<Real>());
  for (int r = 0; r < WIDE; ++r)
    for (int c = 0; c < EQUATION; ++c) {
      const T number = block[r][c < WIDE ? 2 * WIDE + c : c < 2 * WIDE ? c - WIDE : COLUMNS - 1];
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

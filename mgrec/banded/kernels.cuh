// Banded systems with LOWER diagonals below the main one and UPPER above it, or of BLOCK × BLOCK blocks.
//
// A whole system is eliminated with pivots, a partition by reflections: see cpu.py. Cells are the
// equations of a partition, or of several, in the interfaces before and after it; groups of cells are
// eliminated as partitions are, with a cell as a step. TEAM threads of a warp share the rows, by columns.
#pragma once
#include "engines/cuda/lanes.cuh"
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/numbers.cuh"

constexpr int WIDE = LOWER + UPPER, EQUATION = 2 * WIDE + 1, CELL = WIDE * EQUATION;
constexpr int OPERANDS = BLOCK > 1 ? 4 : WIDE + 2;

struct Chunk {
  Operand operands[OPERANDS];  // the diagonals, or those of blocks, and b
  T* result;
  T* pivots;          // see Pivots
  T* cells;           // (system, part, WIDE, EQUATION)
  const T* values;    // (system, part or the end, WIDE)
  long long* status;  // the first singular system; whether all operands are finite
  long long outer, steps, inner, parts, length, before, after;
};

DEVICE inline Real squared(Real x) { return x * x; }
template <class R> DEVICE inline R squared(complex<R> x) { return x.re * x.re + x.im * x.im; }
DEVICE inline bool is_nan(Real x) { return x != x; }
template <class R> DEVICE inline bool is_nan(complex<R> x) { return x.re != x.re || x.im != x.im; }
// x/|x|
DEVICE inline Real phase_of(Real x) { return x < Real(0) ? Real(-1) : Real(1); }
template <class R> DEVICE inline complex<R> phase_of(complex<R> x) { return scaled(x, R(1) / sqrt(squared(x))); }
DEVICE inline void exchange_if(bool condition, T& x, T& y) {
  const T old = x;
  x = condition ? y : x, y = condition ? old : y;
}
DEVICE inline long long thread_index() { return blockIdx.x * (long long)THREADS + threadIdx.x; }

// Adjacent threads of a warp.
template <int SIZE> struct Team {
  DEVICE static int lane() { return SIZE == 1 ? 0 : int(threadIdx.x % SIZE); }
  // The number of a thread `lane`.
  template <class X> DEVICE static X from(X x, int lane) {
    if constexpr (SIZE == 1) return x;
    const int first = threadIdx.x % 32 / SIZE * SIZE;
    const unsigned members = SIZE == 32 ? ~0u : ((1u << SIZE % 32) - 1) << first;
    return shuffled(x, [=](unsigned word) { return __shfl_sync(members, word, first + lane); });
  }
  template <class X, class Combine> DEVICE static X all(X x, Combine combine) {
    for (int distance = SIZE / 2; distance > 0; distance /= 2) x = combine(x, from(x, lane() ^ distance));
    return x;
  }
  DEVICE static T sum(T x) {
    return all(x, [](T a, T b) { return a + b; });
  }
};

// Rows of partitions come in steps of B rows, with the coefficients of COLUMNS unknowns, then b.
template <int B_, int TEAM_> struct Shape {
  static constexpr int B = B_, TEAM = TEAM_, COLUMNS = WIDE + B, ROW = COLUMNS + 1;
  static constexpr int OWN = (ROW + TEAM - 1) / TEAM;  // numbers of a row that a thread has
  static constexpr int TIMES = TEAM == 1 ? B : 1;  // a column's number is known at compile time, or a thread's
  static_assert(TEAM == 1 || TEAM >= COLUMNS, "threads have one coefficient of a row");
  DEVICE static int column(int k) { return Team<TEAM>::lane() + k * TEAM; }
};

// PENDING rows and those of a step; after b come the coefficients of BEFORE unknowns before the partition.
template <class S, int PENDING, int BEFORE> struct Matrix {
  static constexpr int COUNT = PENDING + S::B, OWN = (S::ROW + BEFORE + S::TEAM - 1) / S::TEAM;
  using Members = Team<S::TEAM>;
  T values[COUNT][OWN] = {};

  // Load a step, rows scaled. The size of its smallest row counts as a pivot's, that of the largest row of a cell.
  template <class Source> DEVICE void load(Source& source, int i) {
    Real most = Real(0);
#pragma unroll
    for (int r = 0; r < S::B; ++r) {
      Real size = Real(0);
#pragma unroll
      for (int k = 0; k < OWN; ++k) {
        const int c = S::column(k);
        const T number = k < S::OWN && c < S::ROW ? source.number(i, r, k) : T(0);
        values[PENDING + r][k] = number;
        source.nan_seen = source.nan_seen + zero_or_nan(number);
        if (c < S::COLUMNS) size = fmax(magnitude(number), size);
      }
      size = Members::all(size, [](Real x, Real y) { return fmax(x, y); });
      const Real scale = scale_of(size);
#pragma unroll
      for (int k = 0; k < S::OWN; ++k) values[PENDING + r][k] = scaled(values[PENDING + r][k], scale);
      if (Source::HAS_CELLS) most = fmax(size, most);
      else source.bound(size);
    }
    if (Source::HAS_CELLS) source.bound(most);
  }
  DEVICE void exchange_rows_if(bool condition, int r, T (&numbers)[COUNT]) {
    exchange_if(condition, numbers[0], numbers[r]);
#pragma unroll
    for (int k = 0; k < OWN; ++k) exchange_if(condition, values[0][k], values[r][k]);
  }
  // Exchange the first row for row `pivot`, one of LENGTH rows from FIRST: threads of a team branch together.
  template <int FIRST, int LENGTH> DEVICE void exchange_by_branches(int pivot, T (&numbers)[COUNT]) {
    constexpr int HALF = LENGTH / 2;
    if constexpr (LENGTH == 1) exchange_rows_if(true, FIRST, numbers);
    else if (pivot < FIRST + HALF) exchange_by_branches<FIRST, HALF>(pivot, numbers);
    else exchange_by_branches<FIRST + HALF, LENGTH - HALF>(pivot, numbers);
  }
  // Exchange the first row for that of the largest number in a column; return this number's size.
  DEVICE Real exchange(int column, T (&numbers)[COUNT]) {
    int pivot = 0;
#pragma unroll
    for (int r = 0; r < COUNT; ++r)
      numbers[r] = S::TEAM == 1 ? values[r][column] : Members::from(values[r][0], column);
    Real size = magnitude(numbers[0]);
#pragma unroll
    for (int r = 1; r < COUNT; ++r)
      if (magnitude(numbers[r]) > size) size = magnitude(numbers[r]), pivot = r;
    if constexpr (S::TEAM > 1) {
      if (pivot > 0) exchange_by_branches<1, COUNT - 1>(pivot, numbers);
    } else {
#pragma unroll
      for (int r = 1; r < COUNT; ++r) exchange_rows_if(r == pivot, r, numbers);
    }
    return size;
  }
  // Eliminate a column from all rows but the first by multiples of it; return the size of the pivot.
  DEVICE Real eliminate(int column) {
    T numbers[COUNT];
    const Real size = exchange(column, numbers);
#pragma unroll
    for (int r = 1; r < COUNT; ++r) {
      const T factor = numbers[r] / numbers[0];
#pragma unroll
      for (int k = 0; k < OWN; ++k) values[r][k] = minus_product(values[r][k], factor, values[0][k]);
    }
    return size;
  }
  // The same by a reflection.
  DEVICE Real reflect(int column) {
    T vector[COUNT];
    const Real size = exchange(column, vector);
    if (!(size > Real(0))) return size;
    constexpr double LEAST = sizeof(Real) == 4 ? 0x1p-126 : 0x1p-1022;
    const Real scale = inverse_power(larger(size, Real(LEAST)));
    Real total = Real(0);
#pragma unroll
    for (int r = 0; r < COUNT; ++r) {
      vector[r] = scaled(vector[r], scale);
      total += squared(vector[r]);
    }
    const Real norm = sqrt(total);
    const T phase = phase_of(vector[0]);
    const Real beta = rough_reciprocal(norm * (norm + sqrt(squared(vector[0]))));
    vector[0] = vector[0] + scaled(phase, norm);
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
      T product = T(0);
#pragma unroll
      for (int r = 0; r < COUNT; ++r) product = product + conjugate_of(vector[r]) * values[r][k];
      product = scaled(product, beta);
#pragma unroll
      for (int r = 0; r < COUNT; ++r) values[r][k] = values[r][k] - vector[r] * product;
      if (S::column(k) == column) values[0][k] = scaled(T(0) - phase, norm * inverse_power(scale));
    }
    return size;
  }
  DEVICE void remove_first() {
#pragma unroll
    for (int r = 0; r < COUNT; ++r)
#pragma unroll
      for (int k = 0; k < OWN; ++k) values[r][k] = r + 1 < COUNT ? values[r + 1][k] : T(0);
  }
  // Go on to the columns of the next step.
  DEVICE void move_columns() {
#pragma unroll
    for (int r = 0; r < PENDING; ++r) {
      if constexpr (S::TEAM == 1) {
#pragma unroll
        for (int c = 0; c < S::COLUMNS; ++c) values[r][c] = c < WIDE ? values[r][c + S::B] : T(0);
      } else {
        const int lane = Members::lane();
        const T moved = Members::from(values[r][0], (lane + S::B) % S::TEAM);
        values[r][0] = lane < WIDE ? moved : lane < S::COLUMNS ? T(0) : values[r][0];
      }
    }
  }
};

// Pivot rows of all steps: the inverse pivot, coefficients of the columns after it, and the other numbers.
template <class S, int BEFORE> struct Pivots {
  static constexpr int NUMBERS = S::ROW + BEFORE, OWN = (NUMBERS + S::TEAM - 1) / S::TEAM;
  T* numbers;       // of a thread's or a team's partition; null if they are not kept
  long long apart;  // numbers from a column to the next

  // Those of a partition of several, of so many rows at most. Threads without a team have theirs side by side.
  DEVICE Pivots(T* all, long long index, long long count, long long rows)
      : numbers(all == nullptr ? all : S::TEAM == 1 ? all + index : all + index * rows * NUMBERS),
        apart(S::TEAM == 1 ? count : 1) {}
  DEVICE T* row(int i, int p) const { return numbers + (i * S::B + p) * (long long)NUMBERS * apart; }
  template <class M> DEVICE void store(const M& matrix, int i, int p) const {
    if (numbers == nullptr) return;
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
      const int c = S::column(k);
      if (c >= p && c < NUMBERS) row(i, p)[c * apart] = c == p ? T(1) / matrix.values[0][k] : matrix.values[0][k];
    }
  }
  // Write the unknowns of the steps `last` … `first`. `known` has those before the partition, then those after it.
  template <class Write> DEVICE void substitute(const T* known, int first, int last, Write write) const {
    using Members = Team<S::TEAM>;
    T factors[OWN];  // of the numbers of a row
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
      const int c = S::column(k), of_known = c < S::COLUMNS ? BEFORE + c - S::B : c - S::ROW;
      const bool is_known = c >= S::B && c < NUMBERS && known != nullptr;
      factors[k] = c == S::COLUMNS ? T(-1) : is_known ? known[of_known] : T(0);
    }
    for (int i = last; i >= first; --i) {
      T rows[S::B][OWN];
#pragma unroll
      for (int p = 0; p < S::B; ++p)
#pragma unroll
        for (int k = 0; k < OWN; ++k) {
          const int c = S::column(k);
          rows[p][k] = c >= p && c < NUMBERS ? row(i, p)[c * apart] : T(0);
        }
#pragma unroll
      for (int p = S::B - 1; p >= 0; --p) {
        T sum = T(0);
#pragma unroll
        for (int k = OWN - 1; k >= 0; --k)
          if (S::column(k) > p) sum = minus_product(sum, rows[p][k], factors[k]);
        const T inverse = S::TEAM == 1 ? rows[p][p] : Members::from(rows[p][0], p);
        const T x = Members::sum(sum) * inverse;
#pragma unroll
        for (int k = 0; k < OWN; ++k)
          if (S::column(k) == p) factors[k] = x;
      }
#pragma unroll
      for (int k = 0; k < OWN; ++k)
        if (S::column(k) < S::B) write(i * S::B + S::column(k), factors[k]);
      if constexpr (S::TEAM == 1) {
#pragma unroll
        for (int c = S::COLUMNS - 1; c >= S::B; --c) factors[c] = factors[c - S::B];
      } else {
        const T moved = Members::from(factors[0], (Members::lane() + S::TEAM - S::B) % S::TEAM);
        if (Members::lane() < S::COLUMNS) factors[0] = moved;
      }
    }
  }
};

// Steps of a partition, those that come next on chip. `Of` has addresses of numbers, and where there are none.
template <class Of> struct Steps : Of {
  using S = typename Of::Numbers;
  static constexpr int AHEAD = S::B == BLOCK && S::TEAM == 1 ? STEPS : 1, STEP = S::B * S::OWN * THREADS;
  T nan_seen = T(0);
  Real least = Real(1);  // of pivots and of rows
  T* const on_chip = (T*)shared_bytes + threadIdx.x;

  template <class Over> DEVICE Steps(const Over& all, long long index) : Of(all, index) {}
  DEVICE void bound(Real size) {
    if (size < least) least = size;
  }
  DEVICE bool is_there(int i, int k) const {
    const int c = S::column(k);
    return i <= this->last && c < S::ROW && (c == S::COLUMNS || this->is_inside(i, c));
  }
  DEVICE void fetch(int start) const {
#pragma unroll 1
    for (int s = 0; s < AHEAD; ++s)
#pragma unroll
      for (int r = 0; r < S::B; ++r)
#pragma unroll
        for (int k = 0; k < S::OWN; ++k) {
          const int i = start + s, c = S::column(k);
          const bool is_there = this->is_there(i, k);
          T* to = on_chip + i % (2 * AHEAD) * STEP + (r * S::OWN + k) * THREADS;
          copy_word_if(is_there, to, is_there ? this->address(i, r, c) : this->address(0, 0, S::COLUMNS));
        }
    copies_commit();
  }
  // Wait for step i, having fetched those before it.
  DEVICE void wait(int i) const {
    if (i == 0) fetch(0);
    if (i % AHEAD != 0) return;
    fetch(i + AHEAD);
    copies_wait_but<1>();
  }
  DEVICE T number(int i, int r, int k) const {
    return is_there(i, k) ? on_chip[i % (2 * AHEAD) * STEP + (r * S::OWN + k) * THREADS] : T(0);
  }
  DEVICE T nan_of_all() const { return is_nan(Team<S::TEAM>::sum(nan_seen)) ? T(not_a_number<Real>()) : T(0); }
};

// The rows of a partition, or of a whole system.
struct Partition {
  using Numbers = Shape<BLOCK, TEAM>;
  static constexpr bool HAS_CELLS = false;
  const Chunk& chunk;
  long long index, system, position, outer, column, first;
  int last, low, high;  // steps; the first and the last unknown of the system, those of neighbours included

  DEVICE Partition(const Chunk& chunk, long long index) : chunk(chunk), index(index) {
    system = index / chunk.parts, position = index - system * chunk.parts;
    outer = system / chunk.inner, column = system - outer * chunk.inner;
    first = position * chunk.length;
    const long long stop = first + chunk.length < chunk.steps ? first + chunk.length : chunk.steps;
    last = int(stop - first) - 1;
    const long long before = chunk.before + first * BLOCK, after = chunk.after + (chunk.steps - stop) * BLOCK;
    low = before < WIDE ? -int(before) : -WIDE;
    high = count() - 1 + (after < WIDE ? int(after) : WIDE);
  }
  DEVICE int count() const { return (last + 1) * BLOCK; }
  template <int BEFORE> DEVICE Pivots<Numbers, BEFORE> pivots() const {
    return {chunk.pivots, index, chunk.outer * chunk.inner * chunk.parts, chunk.length * BLOCK};
  }
  DEVICE bool is_inside(int i, int c) const {
    const int unknown = i * BLOCK + c - LOWER;
    return unknown >= low && unknown <= high;
  }
  DEVICE const T* address(int i, int r, int c) const {
    const bool is_b = c == Numbers::COLUMNS;
    const Operand& from = chunk.operands[is_b ? OPERANDS - 1 : c / BLOCK];
    const long long step = outer * from.outer + (first + i) * from.step + column * from.inner;
    return from.data + (is_b ? step * BLOCK + r : step * BLOCK * BLOCK + r * BLOCK + c % BLOCK);
  }
  // Write unknown `row` of the partition, if it is one.
  DEVICE void write_row(int row, T x) const {
    if (row < 0 || row >= count()) return;
    const long long step = (outer * chunk.steps + first + row / BLOCK) * chunk.inner + column;
    chunk.result[step * BLOCK + row % BLOCK] = x;
  }
  // The same, counted from the first unknown of the interface before.
  DEVICE void write(int unknown, T x) const { write_row(unknown - LOWER, x); }
};

// Cells that are merged to one for each group of GROUP cells, and the values at their interfaces.
struct Level {
  const T* cells;
  T* merged;
  T* pivots;
  const T* known;  // the values at the ends of groups (system, group or the end, WIDE)
  T* values;       // those at all interfaces (system, part or the end, WIDE)
  long long systems, parts, groups;
};
// A group of cells.
struct Cells {
  using Numbers = Shape<WIDE, LEVEL_TEAM>;
  static constexpr bool HAS_CELLS = true;
  const Level& level;
  long long index, system, group;
  int last;
  bool is_last;
  const T* cells;
  T* values;

  DEVICE Cells(const Level& level, long long index) : level(level), index(index) {
    system = index / level.groups, group = index - system * level.groups;
    const long long start = group * GROUP, stop = start + GROUP;
    is_last = stop >= level.parts;
    last = int((is_last ? level.parts : stop) - start) - 1;
    cells = level.cells + (system * level.parts + start) * CELL;
    values = level.values + (system * (level.parts + 1) + start) * WIDE;
  }
  DEVICE int count() const { return (last + 1) * WIDE; }
  template <int BEFORE> DEVICE Pivots<Numbers, BEFORE> pivots() const {
    return {level.pivots, index, level.systems * level.groups, GROUP * WIDE};
  }
  DEVICE bool is_inside(int i, int c) const { return true; }
  DEVICE const T* address(int i, int r, int c) const { return cells + (i * WIDE + r) * EQUATION + c; }
  // The first interface of the next group is written by that group.
  DEVICE void write(int unknown, T x) const {
    if (unknown < count() || is_last) values[unknown] = x;
  }
};

// Write the equations of all steps in the interfaces before and after them, and the pivot rows.
template <class Source> DEVICE inline void reduce(Source& source, T* cell) {
  using S = typename Source::Numbers;
  constexpr int TIMES = S::TIMES;
  const Pivots<S, WIDE> pivots = source.template pivots<WIDE>();
  Matrix<S, WIDE, WIDE> matrix;
  // The unknowns that are eliminated first are those of the interface before.
#pragma unroll
  for (int r = 0; r < WIDE; ++r)
#pragma unroll
    for (int k = 0; k < matrix.OWN; ++k)
      matrix.values[r][k] = T(S::column(k) == r ? 1 : S::column(k) == S::ROW + r ? -1 : 0);
  for (int i = 0; i <= source.last; ++i) {
    source.wait(i);
    matrix.load(source, i);
#pragma unroll TIMES
    for (int p = 0; p < S::B; ++p) {
      source.bound(matrix.reflect(p));
      pivots.store(matrix, i, p);
      matrix.remove_first();
    }
    matrix.move_columns();
  }
  const T nan_seen = source.nan_of_all();
#pragma unroll
  for (int r = 0; r < WIDE; ++r)
#pragma unroll
    for (int k = 0; k < matrix.OWN; ++k) {
      const int c = S::column(k), to = c < WIDE ? WIDE + c : c == S::COLUMNS ? 2 * WIDE : c - S::ROW;
      if (to >= 0 && c < S::ROW + WIDE)
        cell[r * EQUATION + to] = (source.least > Real(0) ? matrix.values[r][k] : T(0)) + nan_seen;
    }
}
// Write all unknowns, from those of the interfaces before and after the steps.
template <class Source> DEVICE inline void substitute(const Source& source, const T* known) {
  using S = typename Source::Numbers;
  for (int k = Team<S::TEAM>::lane(); k < WIDE; k += S::TEAM) source.write(source.count() + k, known[WIDE + k]);
  const auto write = [&](int unknown, T x) { source.write(unknown, x); };
  source.template pivots<WIDE>().substitute(known, WIDE / S::B, source.last, write);
  for (int k = Team<S::TEAM>::lane(); k < WIDE; k += S::TEAM) source.write(k, known[k]);
}

extern "C" __global__ void __launch_bounds__(THREADS) reduce_kernel(const Chunk chunk) {
  const long long index = thread_index() / TEAM;
  if (index >= chunk.outer * chunk.inner * chunk.parts) return;
  Steps<Partition> part(chunk, index);
  reduce(part, chunk.cells + index * CELL);
}
extern "C" __global__ void __launch_bounds__(THREADS) substitute_kernel(const Chunk chunk) {
  const long long index = thread_index() / TEAM;
  if (index >= chunk.outer * chunk.inner * chunk.parts) return;
  const Partition part(chunk, index);
  substitute(part, chunk.values + (part.system * (chunk.parts + 1) + part.position) * WIDE);
}
extern "C" __global__ void __launch_bounds__(THREADS) merge_kernel(const Level level) {
  const long long index = thread_index() / LEVEL_TEAM;
  if (index >= level.systems * level.groups) return;
  Steps<Cells> cells(level, index);
  reduce(cells, level.merged + index * CELL);
}
extern "C" __global__ void __launch_bounds__(THREADS) open_kernel(const Level level) {
  const long long index = thread_index() / LEVEL_TEAM;
  if (index >= level.systems * level.groups) return;
  const Cells cells(level, index);
  substitute(cells, level.known + (cells.system * (level.groups + 1) + cells.group) * WIDE);
}

extern "C" __global__ void __launch_bounds__(THREADS) whole_kernel(const Chunk chunk) {
  using S = Partition::Numbers;
  const long long index = thread_index() / TEAM;
  if (index >= chunk.outer * chunk.inner) return;
  Steps<Partition> part(chunk, index);
  const Pivots<S, 0> pivots = part.pivots<0>();
  Matrix<S, LOWER, 0> matrix;
  // The unknowns before the system are 0, and are eliminated first.
#pragma unroll
  for (int r = 0; r < LOWER; ++r)
#pragma unroll
    for (int k = 0; k < S::OWN; ++k) matrix.values[r][k] = T(S::column(k) == r ? 1 : 0);
  constexpr int OFFSET = LOWER / BLOCK, TIMES = S::TIMES;
  for (int i = 0; i <= part.last + OFFSET; ++i) {
    if (i <= part.last) {
      part.wait(i);
      matrix.load(part, i);
    }
#pragma unroll TIMES
    for (int p = 0; p < BLOCK; ++p) {
      part.bound(matrix.eliminate(p));
      if (i >= OFFSET) pivots.store(matrix, i - OFFSET, p);
      matrix.remove_first();
    }
    matrix.move_columns();
  }
  const T nan_seen = part.nan_of_all();
  if (is_nan(nan_seen)) chunk.status[1] = 0;
  else if (!(part.least > Real(0)))
    atomicMin((unsigned long long*)chunk.status, (unsigned long long)part.system);
  pivots.substitute(nullptr, 0, part.last, [&](int row, T x) { part.write_row(row, x + nan_seen); });
}

// Systems of few diagonals that need no pivoting, whose operands are read once and results written once.
//
// A step has SPAN adjacent unknowns, and equations in them, the BELOW unknowns before and the ABOVE
// unknowns after them: rows of LOWER diagonals below the main one and UPPER above it, or a row of
// blocks. A window has adjacent partitions of STEPS steps on chip, THREADS / WIDTH of them for each of
// WIDTH columns; each thread has one. The last step of a partition is its separator. The thread
// eliminates the other steps in place. The steps of the separators, one a thread, are reduced by
// parallel cyclic reduction until they are decoupled. Unknowns outside a window are taken for 0.
// Therefore either a system is whole in a window, or a window has `halo` partitions on either side that
// other windows write. The kernel then bounds how much the unknowns beyond the halo affect the interior.
//
// If the program HAS_GAPS, contiguous systems of an operand may be apart in memory.
//
// The kernel also bounds every divisor and every ratio. If one is out of bounds, `is_solved` becomes
// 0: all systems have to be solved again with pivoting, and later windows stop.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/numbers.cuh"

constexpr int WIDEST = LOWER > UPPER ? LOWER : UPPER;
constexpr int SPAN = BLOCK > 0 ? BLOCK : WIDEST > 0 ? WIDEST : 1;
constexpr int BELOW = BLOCK > 0 ? BLOCK : LOWER > 0 ? LOWER : 1;
constexpr int ABOVE = BLOCK > 0 ? BLOCK : UPPER > 0 ? UPPER : 1;
constexpr int ROWS = STEPS * SPAN;           // of a partition
constexpr int UNIT = BLOCK > 0 ? BLOCK : 1;  // rows along which operands vary together
constexpr int OPERANDS = BLOCK > 0 ? 4 : LOWER + UPPER + 2;
// Numbers of an operand in a partition.
DEVICE constexpr int count_of(int operand) {
  return BLOCK == 0 ? ROWS : operand < OPERANDS - 1 ? ROWS * BLOCK : ROWS;
}
// Those of neighbouring threads are in different banks.
DEVICE constexpr int pitch_of(int operand) { return WIDTH > 1 ? count_of(operand) : count_of(operand) | 1; }
DEVICE constexpr int start_of(int operand) { return operand * THREADS * pitch_of(0); }
constexpr int COEFFICIENTS = BLOCK > 0 ? 3 * BLOCK : LOWER + UPPER + 1;  // of a row
constexpr int LANES = THREADS / WIDTH;

// Division of numbers below 2^31 by a divisor that the host prepares.
struct Divisor {
  unsigned long long number, magic, shift;
  DEVICE int quotient(int x) const {
    const unsigned high = unsigned(magic * (unsigned long long)unsigned(x) >> 32);
    return int((high + unsigned(x)) >> shift);
  }
};

struct Windows {
  Operand operands[OPERANDS];  // diagonals from the lowest to the highest, and b; strides in UNITs
  T* result;
  // The BELOW unknowns before and the ABOVE unknowns after each system, if known; else 0.
  const T *before, *after;
  long long apart;        // numbers between those of two systems
  long long rows, inner;  // of a system
  long long groups;       // systems, or groups of WIDTH of them
  Divisor column_groups;  // of one outer index
  Divisor parts;          // of a system
  long long interior, halo;  // partitions of a window
  long long by_words;  // columns: WIDTH of them at once, at multiples of 16 bytes
  long long* failed;     // number of the last launch that has failed
  long long launch;      // number of this one
  long long* is_solved;  // in memory of the host: becomes 0 if a window fails
  DEVICE void fail() const { *failed = launch, *is_solved = 0; }
  // Whether an operand varies along all rows.
  DEVICE bool varies(int k) const {
    const long long of_system = operands[k].outer * UNIT;
    return operands[k].step == 1 && (of_system == rows || (HAS_GAPS && of_system != 0));
  }
  DEVICE long long used() const { return interior + 2 * halo; }
  DEVICE long long all_parts() const { return groups * (long long)parts.number; }
};

// The partition of a thread.
struct Partition {
  long long outer, column, first;
  int length;     // 0 for a thread without a partition
  int low, high;  // its first and its last row whose unknowns exist, those of neighbours included
  bool is_first, is_last, is_there;

  DEVICE Partition(const Windows& all) {
    const int lane = threadIdx.x / WIDTH;
    const long long number = blockIdx.x * all.interior - all.halo + lane;
    is_there = lane < all.used() && number >= 0 && number < all.all_parts();
    const int index = is_there ? int(number) : 0, parts = int(all.parts.number);
    const int group = all.parts.quotient(index), part = index - group * parts;
    outer = WIDTH == 1 ? group : all.column_groups.quotient(group);
    const long long groups = all.column_groups.number;
    column = WIDTH == 1 ? 0 : (group - outer * groups) * WIDTH + threadIdx.x % WIDTH;
    first = part * (long long)ROWS;
    is_first = part == 0, is_last = part == parts - 1;
    const int rows = group_length(all);
    length = column < all.inner ? rows : 0;
    low = is_first && all.before == nullptr ? 0 : -BELOW;
    high = !is_last ? ROWS + ABOVE : all.after == nullptr ? length - 1 : length + ABOVE;
  }
  // Rows that all threads of a group of whole words load.
  DEVICE int group_length(const Windows& all) const {
    const long long remaining = all.rows - first;
    return !is_there ? 0 : remaining < ROWS ? int(remaining) : ROWS;
  }
  DEVICE long long known(const Windows& all) const { return (outer * all.inner + column) * all.apart; }
  // The unknowns -BELOW … -1 before a system, and those from the last partition's row `length` on.
  DEVICE T before(const Windows& all, int k) const {
    return is_first && length > 0 && all.before != nullptr ? all.before[known(all) + k] : T(0);
  }
  DEVICE T after(const Windows& all, int k) const {
    return is_last && length > 0 && all.after != nullptr && k < ABOVE ? all.after[known(all) + k] : T(0);
  }
};

// Load the rows of a partition's WIDTH columns, by words.
DEVICE inline void load_columns(T* to, const T* from, long long step, int length, long long columns) {
  constexpr int WORDS = WIDTH >= PACK ? WIDTH / PACK : 1;
  const int lane = threadIdx.x % WIDTH;
#pragma unroll
  for (int k = 0; k < (ROWS * WORDS + WIDTH - 1) / WIDTH; ++k) {
    const int word = lane + k * WIDTH, row = word / WORDS, column = word % WORDS * PACK;
    Word* const target = (Word*)(to + row * WIDTH + column);
    const Word* const source = (const Word*)(from + row * step + column);
    const bool is_there = row < length && column < columns;
    if ((k + 1) * WIDTH <= ROWS * WORDS) copy_word_if(is_there, target, source);
    else if (is_there) copy_word(target, source);
  }
}

// Where the partitions of a warp are in memory, if systems are contiguous.
struct Source {
  long long outer, first;  // of the partition of a thread
  long long start;         // the first row of the warp, counted over all systems
  int row, length;         // of the partition of a thread, from `start`
  // All of them are complete, one after the other without gaps, and none is at an end of memory.
  bool is_even;

  DEVICE Source(const Windows& all, const Partition& of_this)
      : outer(of_this.outer), first(of_this.first), length(of_this.length) {
    const int lane = threadIdx.x % 32;
    const long long of_all = outer * all.rows + first;
    start = __shfl_sync(~0u, of_all, 0), row = int(of_all - start);
    const bool is_at_end = of_all < BELOW || of_all + length > all.groups * all.rows - ABOVE;
    is_even = !__any_sync(~0u, length != ROWS || row != lane * ROWS || is_at_end || HAS_GAPS);
  }
  // The first row that has memory, and the end of those, if LEAD or TRAIL of all rows have none.
  template <int LEAD> DEVICE int least(const Windows& all) const {
    return all.before == nullptr && start < LEAD ? LEAD - int(start) : 0;
  }
  template <int TRAIL> DEVICE int most(const Windows& all) const {
    const long long rows = all.groups * all.rows - (all.after == nullptr ? TRAIL : 0) - start;
    return rows < (1 << 30) ? int(rows) : 1 << 30;
  }
};
// The first thread of a warp.
DEVICE inline int first_of_warp() { return threadIdx.x / 32 * 32; }

// A number of the partitions of a warp: where it is in memory, from source.start, and in the tile.
template <int COUNT> struct Position {
  int from, lane, within, system;
  bool is_there;

  // Number 32·k + thread, of partitions that have COUNT numbers.
  DEVICE Position(const Source& source, int k, bool is_even) {
    const int number = 32 * k + threadIdx.x % 32, of_warp = number / COUNT;
    from = number, within = number % COUNT, lane = first_of_warp() + of_warp, is_there = true;
    if (is_even) return;
    system = HAS_GAPS ? __shfl_sync(~0u, int(source.outer), of_warp) : 0;
    from = __shfl_sync(~0u, source.row, of_warp) * (COUNT / ROWS) + within;
    is_there = within < __shfl_sync(~0u, source.length, of_warp) * (COUNT / ROWS);
  }
};

// Load numbers of the operands K … LAST, which have as many in a partition.
template <bool IS_EVEN, int K, int LAST>
DEVICE inline void load_number(T* tile, const Windows& all, const Source& source, const bool (&varies)[OPERANDS],
                               const Position<count_of(K)>& position) {
  constexpr int NUMBERS = count_of(K) / ROWS;
  const T* from = all.operands[K].data + source.start * NUMBERS + position.from;
  if (HAS_GAPS) from += position.system * (all.operands[K].outer * UNIT - all.rows) * NUMBERS;
  T* to = tile + start_of(K) + position.lane * pitch_of(K) + position.within;
  if (varies[K] && IS_EVEN) copy_word(to, from);
  if (varies[K] && !IS_EVEN) {
    // The first and the last rows of all may be without memory where coefficients are outside of the matrix.
    constexpr int LEAD = BLOCK == 0 && K < LOWER ? LOWER - K : 0;
    constexpr int TRAIL = BLOCK == 0 && K > LOWER && K < OPERANDS - 1 ? K - LOWER : 0;
    const bool is_outside = (LEAD > 0 && position.from < source.least<LEAD>(all)) ||
                            (TRAIL > 0 && position.from >= source.most<TRAIL>(all));
    copy_word_if(position.is_there && !is_outside, to, from);
  }
  if constexpr (K < LAST) load_number<IS_EVEN, K + 1, LAST>(tile, all, source, varies, position);
}
template <bool IS_EVEN, int FIRST, int LAST>
DEVICE inline void load_varying(T* tile, const Windows& all, const Source& source, const bool (&varies)[OPERANDS]) {
  constexpr int COUNT = count_of(FIRST), TIMES = COUNT <= 32 ? COUNT : 8;
#pragma unroll TIMES
  for (int k = 0; k < COUNT; ++k)
    load_number<IS_EVEN, FIRST, LAST>(tile, all, source, varies, Position<COUNT>(source, k, IS_EVEN));
}
template <bool IS_EVEN>
DEVICE inline void load_varying(T* tile, const Windows& all, const Source& source, const bool (&varies)[OPERANDS]) {
  if constexpr (BLOCK > 1) {
    load_varying<IS_EVEN, 0, OPERANDS - 2>(tile, all, source, varies);
    load_varying<IS_EVEN, OPERANDS - 1, OPERANDS - 1>(tile, all, source, varies);
  } else {
    load_varying<IS_EVEN, 0, OPERANDS - 1>(tile, all, source, varies);
  }
}
// Load the thread's rows of operands that do not vary along all rows.
template <int K = 0>
DEVICE inline void load_others(T* tile, const Windows& all, const Source& source, const bool (&varies)[OPERANDS]) {
  const Operand& operand = all.operands[K];
  constexpr int NUMBERS = count_of(K) / ROWS;
  if (!varies[K]) {
    constexpr int COUNT = UNIT * NUMBERS;
    const T* from = operand.data + (source.outer * operand.outer + source.first / UNIT * operand.step) * COUNT;
    T* to = tile + start_of(K) + threadIdx.x * pitch_of(K);
    if (COUNT == 1 && operand.step == 0) {
      const T number = *from;
      for (int k = 0; k < ROWS; ++k) to[k] = number;
    } else {
      for (int k = 0; k < source.length * NUMBERS; ++k) to[k] = from[k / COUNT * COUNT * operand.step + k % COUNT];
    }
  }
  if constexpr (K + 1 < OPERANDS) load_others<K + 1>(tile, all, source, varies);
}

DEVICE inline void load_contiguous(T* tile, const Windows& all, const Source& source) {
  bool varies[OPERANDS];
#pragma unroll
  for (int k = 0; k < OPERANDS; ++k) varies[k] = all.varies(k);
  if (source.is_even) load_varying<true>(tile, all, source, varies);
  else load_varying<false>(tile, all, source, varies);
  load_others(tile, all, source, varies);
}

// Write the interior of a window, if systems are contiguous.
template <bool IS_EVEN>
DEVICE inline void store_contiguous(const T* tile, const Windows& all, const Source& source) {
  constexpr int K = OPERANDS - 1;
  const int first = int(all.halo), end = int(all.halo + all.interior);
  T* to = all.result + source.start;
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const Position<ROWS> position(source, k, IS_EVEN);
    const T number = tile[start_of(K) + position.lane * pitch_of(K) + position.within];
    if (position.is_there && position.lane >= first && position.lane < end) to[position.from] = number;
  }
}

// Load what the threads of this warp read.
DEVICE inline void load_window(T* tile, const Windows& all, const Partition& partition, const Source& source) {
  if constexpr (WIDTH == 1) {
    load_contiguous(tile, all, source);
  } else {
    const int lane = threadIdx.x % WIDTH, length = partition.group_length(all);
#pragma unroll
    for (int k = 0; k < OPERANDS; ++k) {
      const Operand& operand = all.operands[k];
      T* to = tile + start_of(k) + threadIdx.x / WIDTH * ROWS * WIDTH;
      const T* from = operand.data + partition.outer * operand.outer + partition.first * operand.step +
                      partition.column * operand.inner;
      if (all.by_words && operand.inner == 1 && operand.step != 0) {
        load_columns(to, from - lane, operand.step, length, all.inner - partition.column + lane);
      } else if (operand.step == 0) {
        const T number = partition.length > 0 ? *from : T(0);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) to[lane + row * WIDTH] = number;
      } else {
#pragma unroll
        for (int row = 0; row < ROWS; ++row)
          copy_word_if(row < partition.length, to + lane + row * WIDTH, from + row * operand.step);
      }
    }
  }
  copies_commit();
  copies_wait_but<0>();
  __syncwarp();
}

constexpr bool IS_SINGLE = sizeof(Real) == 4;
// Bounds of the ratios of a row to its pivot (at most 1 if rows are dominant), and of pivots.
constexpr Real MOST_RATIO = 4, LEAST_PIVOT = Real(1) / 16;
constexpr Real LARGEST = IS_SINGLE ? Real(0x1p60) : Real(0x1p500);
// Coefficients of other separators, and of unknowns beyond a window, that are negligible.
constexpr Real APART = IS_SINGLE ? Real(0x1p-48) : Real(0x1p-104);
constexpr Real NEGLIGIBLE = IS_SINGLE ? Real(0x1p-27) : Real(0x1p-56);

DEVICE inline float sum_of_parts(float x) { return fabs(x); }
DEVICE inline double sum_of_parts(double x) { return fabs(x); }
template <class R> DEVICE inline R sum_of_parts(complex<R> x) { return fabs(x.re) + fabs(x.im); }

// The largest ratio and pivot. A nan is found in the result, and so is a pivot of 0 or inf, whose
// inverse leads to nan.
struct Bounds {
  Real most_ratio = 0, most_pivot = 0;
  bool bad = false;
  DEVICE void ratio(T x) { most_ratio = fmax(most_ratio, magnitude(x)); }
  DEVICE void pivot(T x) { most_pivot = fmax(most_pivot, magnitude(x)); }
  DEVICE bool are_exceeded() const {
    return bad || !(most_ratio <= MOST_RATIO && most_pivot <= LARGEST);
  }
};

// A row of a step has BELOW coefficients of the last unknowns before, ABOVE of the first ones after, and
// the right-hand side.
constexpr int RHS = BELOW + ABOVE, NUMBERS = RHS + 1;
// x + before·(the last unknowns before) + after·(the first unknowns after) = rhs
struct Step {
  T v[SPAN][NUMBERS];

  // Whether unknowns of other steps have an effect.
  DEVICE bool is_coupled() const { return !(norm<0, BELOW>() <= APART && norm<BELOW, RHS>() <= APART); }
  // The largest sum of the coefficients of the unknowns on one side.
  template <int FIRST, int END> DEVICE Real norm() const {
    Real most = 0;
#pragma unroll
    for (int r = 0; r < SPAN; ++r) {
      Real sum = 0;
#pragma unroll
      for (int c = FIRST; c < END; ++c) sum += sum_of_parts(v[r][c]);
      most = !(sum <= most) ? sum : most;
    }
    return most;
  }
  // Replace the coefficients FIRST … END - 1, of unknowns that are known or are taken for 0.
  template <int FIRST, int END, class Known> DEVICE void remove_known(Known known) {
#pragma unroll
    for (int r = 0; r < SPAN; ++r)
#pragma unroll
      for (int c = FIRST; c < END; ++c)
        v[r][RHS] = minus_product(v[r][RHS], v[r][c], known(c - FIRST)), v[r][c] = T(0);
  }
};

// Replace COUNT unknowns by their rows; their coefficients become 0.
template <int COUNT>
DEVICE inline void replace(T* coefficients, const T (*rows)[NUMBERS], T* before, T* after, T& rhs) {
  T factors[COUNT];
#pragma unroll
  for (int k = 0; k < COUNT; ++k) factors[k] = coefficients[k], coefficients[k] = T(0);
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
#pragma unroll
    for (int c = 0; c < BELOW; ++c) before[c] = minus_product(before[c], factors[k], rows[k][c]);
#pragma unroll
    for (int c = 0; c < ABOVE; ++c) after[c] = minus_product(after[c], factors[k], rows[k][BELOW + c]);
    rhs = minus_product(rhs, factors[k], rows[k][RHS]);
  }
}

// A step with diagonal·x in place of x.
struct Equations : Step {
  T diagonal[SPAN][SPAN];

  DEVICE void remove_before(const Step& step) {
    constexpr int FIRST = SPAN - BELOW;
#pragma unroll
    for (int r = 0; r < SPAN; ++r) replace<BELOW>(v[r], step.v + FIRST, v[r], diagonal[r], v[r][RHS]);
  }
  DEVICE void remove_after(const Step& step) {
    constexpr int FIRST = SPAN - BELOW;
#pragma unroll
    for (int r = 0; r < SPAN; ++r)
      replace<ABOVE>(v[r] + BELOW, step.v, diagonal[r] + FIRST, v[r] + BELOW, v[r][RHS]);
  }
  // Solve for x, by Gauss and Jordan.
  DEVICE Step solved(Bounds& bounds, Real least_pivot = 0) {
#pragma unroll
    for (int p = 0; p < SPAN; ++p) {
      bounds.pivot(diagonal[p][p]);
      if (least_pivot > 0) bounds.bad |= !(magnitude(diagonal[p][p]) >= least_pivot);
      const T inverse = inverse_of(diagonal[p][p]);
#pragma unroll
      for (int c = p + 1; c < SPAN; ++c)
        diagonal[p][c] = diagonal[p][c] * inverse, bounds.ratio(diagonal[p][c]);
#pragma unroll
      for (int c = 0; c < NUMBERS; ++c) v[p][c] = v[p][c] * inverse;
#pragma unroll
      for (int r = 0; r < SPAN; ++r) {
        if (r == p) continue;
        const T factor = diagonal[r][p];
#pragma unroll
        for (int c = p + 1; c < SPAN; ++c)
          diagonal[r][c] = minus_product(diagonal[r][c], factor, diagonal[p][c]);
#pragma unroll
        for (int c = 0; c < NUMBERS; ++c) v[r][c] = minus_product(v[r][c], factor, v[p][c]);
      }
    }
#pragma unroll
    for (int r = 0; r < SPAN; ++r)
#pragma unroll
      for (int c = 0; c < RHS; ++c) bounds.ratio(v[r][c]);
    return *this;
  }
};

// Write the numbers of a step to `at(r, c)`, or read them.
template <class At> DEVICE inline void write_numbers(const Step& step, At at) {
#pragma unroll
  for (int r = 0; r < SPAN; ++r)
#pragma unroll
    for (int c = 0; c < NUMBERS; ++c) at(r, c) = step.v[r][c];
}
template <class At> DEVICE inline Step read_numbers(At at) {
  Step step;
#pragma unroll
  for (int r = 0; r < SPAN; ++r)
#pragma unroll
    for (int c = 0; c < NUMBERS; ++c) step.v[r][c] = at(r, c);
  return step;
}

// Steps that other threads read.
struct Published {
  T* data;
  DEVICE T& at(int thread, int r, int c) const { return data[(r * NUMBERS + c) * THREADS + thread]; }
  DEVICE void write(int thread, const Step& step) const {
    write_numbers(step, [&](int r, int c) -> T& { return at(thread, r, c); });
  }
  DEVICE Step read(int thread) const {
    return read_numbers([&](int r, int c) { return at(thread, r, c); });
  }
};

// The rows of a thread in the tile.
struct Rows {
  T* tile;
  int lane;

  DEVICE explicit Rows(T* tile)
      : tile(tile),
        lane(WIDTH == 1 ? int(threadIdx.x) : int(threadIdx.x) / WIDTH * WIDTH * ROWS + int(threadIdx.x) % WIDTH) {}
  // Number k of an operand.
  DEVICE T& at(int operand, int k) const {
    return tile[start_of(operand) + (WIDTH == 1 ? lane * pitch_of(operand) : lane) + k * WIDTH];
  }
  DEVICE T& rhs(int row) const { return at(OPERANDS - 1, row); }
  // Of a row of blocks, or of diagonals: that of an unknown, counted from the first one of the row's step.
  DEVICE T& coefficient(int row, int k) const {
    return BLOCK > 0 ? at(k / SPAN, row * BLOCK + k % SPAN) : at(k, row);
  }
  DEVICE static int column_of(int row, int k) { return BLOCK > 0 ? k - BLOCK : k - LOWER + row % SPAN; }

  // Write 0 to coefficients outside of the matrix. Rows that the last partition does not have give their
  // unknowns the values after the system.
  DEVICE void complete(const Windows& all, const Partition& partition) const {
    for (int row = 0; row < ROWS; ++row) {
      const bool is_there = row < partition.length;
      if (is_there && row >= SPAN && row < partition.length - SPAN) continue;
      for (int k = 0; k < COEFFICIENTS; ++k) {
        const int column = column_of(row, k), of_all = row - row % SPAN + column;
        if (!is_there) coefficient(row, k) = T(column == row % SPAN ? 1 : 0);
        else if (of_all < partition.low || of_all > partition.high) coefficient(row, k) = T(0);
      }
      if (!is_there) rhs(row) = partition.after(all, row - partition.length);
    }
  }
  DEVICE Equations load(int step) const {
    Equations loaded = {};
#pragma unroll
    for (int r = 0; r < SPAN; ++r) {
#pragma unroll
      for (int k = 0; k < COEFFICIENTS; ++k) {
        const int column = column_of(r, k), number = column < 0 ? BELOW + column : BELOW + column - SPAN;
        const bool is_inside = column >= 0 && column < SPAN;
        (is_inside ? loaded.diagonal[r][column] : loaded.v[r][number]) = coefficient(step * SPAN + r, k);
      }
      loaded.v[r][RHS] = rhs(step * SPAN + r);
    }
    return loaded;
  }
  // The numbers of a step take the places of its operands.
  DEVICE T& number(int row, int k) const {
    if (k == RHS) return rhs(row);
    if (BLOCK == 0) return at(k, row);
    return k < BELOW ? at(0, row * BLOCK + k) : at(2, row * BLOCK + k - BELOW);
  }
  DEVICE void store(int step, const Step& from) const {
    write_numbers(from, [&](int r, int c) -> T& { return number(step * SPAN + r, c); });
  }
  // Return what `store` has written.
  DEVICE Step stored(int step) const {
    return read_numbers([&](int r, int c) { return number(step * SPAN + r, c); });
  }
  DEVICE void store_unknowns(int step, const T (&x)[SPAN]) const {
#pragma unroll
    for (int r = 0; r < SPAN; ++r) rhs(step * SPAN + r) = x[r];
  }
};

// Eliminate all steps of a partition but the last. Write those of its first ABOVE unknowns, in the
// separators on both sides, to `first`; return the separator's equations.
DEVICE inline Equations eliminate(const Rows& rows, Step& first, Bounds& bounds) {
  Equations loaded = rows.load(0), next = rows.load(1);
  Step step = loaded.solved(bounds);
  rows.store(0, step);
  first = step;
  for (int k = 1; k < STEPS - 1; ++k) {
    loaded = next;
    next = rows.load(k + 1);  // before `store`, for which it would wait
    loaded.remove_before(step);
    step = loaded.solved(bounds);
    rows.store(k, step);
#pragma unroll
    for (int r = 0; r < ABOVE; ++r)
      replace<ABOVE>(first.v[r] + BELOW, step.v, first.v[r], first.v[r] + BELOW, first.v[r][RHS]);
  }
#pragma unroll
  for (int r = 0; r < ABOVE; ++r)
#pragma unroll
    for (int c = 0; c < RHS; ++c) bounds.ratio(first.v[r][c]);
  next.remove_before(step);
  return next;
}

// Replace right-hand sides by unknowns. Return 0, or nan if an unknown is not finite.
DEVICE inline T substitute(const Rows& rows, const T (&before)[BELOW], const Step& separator) {
  T x[SPAN], nonfinite = T(0);
#pragma unroll
  for (int r = 0; r < SPAN; ++r) x[r] = separator.v[r][RHS], nonfinite = nonfinite + zero_or_nan(x[r]);
  Step next = rows.stored(STEPS - 2);
  rows.store_unknowns(STEPS - 1, x);
  for (int k = STEPS - 2; k >= 0; --k) {
    Step step = next;
    if (k > 0) next = rows.stored(k - 1);
    step.remove_known<0, BELOW>([&](int c) { return before[c]; });
    step.remove_known<BELOW, RHS>([&](int c) { return x[c]; });
#pragma unroll
    for (int r = 0; r < SPAN; ++r) x[r] = step.v[r][RHS], nonfinite = nonfinite + zero_or_nan(x[r]);
    rows.store_unknowns(k, x);
  }
  return nonfinite;
}

__shared__ Real passed[2][THREADS];

extern "C" __global__ void __launch_bounds__(THREADS) window_kernel(const Windows all) {
  // The number may come from L1, which has the failures of this multiprocessor, and need not have others.
  const bool has_failed = *all.failed == all.launch;
  T* tile = (T*)shared_bytes;
  T* const memory = tile + start_of(OPERANDS - 1) + THREADS * pitch_of(OPERANDS - 1);
  const Published published[2] = {{memory}, {memory + SPAN * NUMBERS * THREADS}};
  const int thread = threadIdx.x, lane = thread / WIDTH;
  const Partition partition(all);
  const Source source(all, partition);
  if (__syncthreads_or(has_failed)) return;
  load_window(tile, all, partition, source);

  const Rows rows(tile);
  if (partition.length < ROWS || partition.is_first || partition.is_last) rows.complete(all, partition);
  Bounds bounds;
  Step first;
  Equations separator = eliminate(rows, first, bounds);
  published[1].write(thread, first);
  if (__syncthreads_or(bounds.are_exceeded())) {
    if (thread == 0) all.fail();
    return;
  }
  const bool is_end = lane == LANES - 1 || partition.is_last;
  if (!is_end) separator.remove_after(published[1].read(thread + WIDTH));
  Step step = separator.solved(bounds);
  if (partition.is_first) step.remove_known<0, BELOW>([&](int c) { return partition.before(all, c); });
  if (partition.is_last)
    step.remove_known<BELOW, RHS>([&](int c) { return partition.after(all, ROWS - partition.length + c); });
  const Real left = step.norm<0, BELOW>(), right = step.norm<BELOW, RHS>();
  passed[0][thread] = left / (1 - right);
  passed[1][thread] = right / (1 - left);
  if (all.halo > 0) bounds.bad |= !(left + right <= Real(1.0001) && left < 1 && right < 1);
  // Unknowns outside a window are taken for 0.
#pragma unroll
  for (int r = 0; r < SPAN; ++r)
#pragma unroll
    for (int c = 0; c < RHS; ++c)
      if (c < BELOW ? lane == 0 : is_end) step.v[r][c] = T(0);
  int from = 0;
  published[0].write(thread, step);
  bool is_coupled = __syncthreads_or(step.is_coupled());
  if (all.halo > 0 && lane == 0) {
    Real from_left = 1, from_right = passed[1][thread + (LANES - 1) * WIDTH];
    for (int k = 0; k < all.halo; ++k) {
      from_left *= passed[0][thread + k * WIDTH];
      from_right *= passed[1][thread + (LANES - 2 - k) * WIDTH];
    }
    bounds.bad |= !(from_left <= NEGLIGIBLE && from_right <= NEGLIGIBLE);
  }
  for (int distance = 1; distance < LANES && is_coupled; distance *= 2) {
    Equations coupled = {step};
#pragma unroll
    for (int r = 0; r < SPAN; ++r) coupled.diagonal[r][r] = T(1);
    if (lane >= distance) coupled.remove_before(published[from].read(thread - distance * WIDTH));
    if (lane + distance < LANES) coupled.remove_after(published[from].read(thread + distance * WIDTH));
    step = coupled.solved(bounds, LEAST_PIVOT);
    from = 1 - from;
    published[from].write(thread, step);
    is_coupled = __syncthreads_or(step.is_coupled());
  }

  T before[BELOW];
#pragma unroll
  for (int c = 0; c < BELOW; ++c) {
    const bool is_first = lane == 0 || partition.is_first;
    before[c] =
        is_first ? partition.before(all, c) : published[from].at(thread - WIDTH, SPAN - BELOW + c, RHS);
  }
  const T nonfinite = substitute(rows, before, step);
  const bool counts = lane >= all.halo && lane < all.halo + all.interior && partition.length > 0;
  // Unknowns of a halo may be nan at the outer end of a window.
  const bool fails = bounds.are_exceeded() || (counts && !(magnitude(nonfinite) == 0));
  if (__any_sync(~0u, fails) && thread % 32 == 0) all.fail();
  if constexpr (WIDTH == 1) {
    __syncwarp();
    if (source.is_even) store_contiguous<true>(tile, all, source);
    else store_contiguous<false>(tile, all, source);
  } else if (counts) {
    T* to = all.result + (partition.outer * all.rows + partition.first) * all.inner + partition.column;
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
      if (k < partition.length) to[k * all.inner] = rows.rhs(k);
  }
}

// Systems that need no pivoting, whose operands are read once and results written once.
//
// A window has adjacent partitions of ROWS rows on chip, THREADS / WIDTH of them for each of WIDTH
// columns; each thread has one. The last row of a partition is its separator. The thread eliminates
// the other rows in registers. The rows of the separators, one a thread, are reduced by parallel
// cyclic reduction until they are decoupled. Unknowns outside a window are taken for 0. Therefore
// either a system is whole in a window, or a window has `halo` partitions on either side that other
// windows write. The kernel then bounds how much the unknowns beyond the halo affect the interior.
//
// The kernel also bounds every divisor and every ratio. If one is out of bounds, `is_solved` becomes
// 0: all systems have to be solved again with pivoting.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/numbers.cuh"

constexpr int LANES = THREADS / WIDTH;
constexpr int TILE = THREADS * ROWS + PACK;

// Division of numbers below 2^31 by a divisor that the host prepares.
struct Divisor {
  unsigned long long number, magic, shift;
  DEVICE int quotient(int x) const {
    const unsigned high = unsigned(magic * (unsigned long long)unsigned(x) >> 32);
    return int((high + unsigned(x)) >> shift);
  }
};

struct Windows {
  Operand operands[4];  // dl, d, du and b
  T* result;
  const T *before, *after;  // the unknowns before and after each system, if known; else 0
  long long steps, inner;
  long long groups;       // systems, or groups of WIDTH of them
  Divisor column_groups;  // of one outer index
  Divisor parts;          // of a system
  long long count, interior, halo;  // windows, and the partitions of one
  long long by_words;  // columns: WIDTH of them at once, at multiples of 16 bytes
  const long long* is_settled;  // not null and not 0 if windows of a shorter halo have succeeded
  long long* is_solved;         // becomes 0 if a window fails
  DEVICE long long used() const { return interior + 2 * halo; }
  DEVICE long long all_parts() const { return groups * (long long)parts.number; }
};

// The partition of a thread.
struct Partition {
  long long outer, column, first;
  int length;  // 0 for a thread without a partition
  bool is_last, is_there;

  // Rows of a group of whole words, which all of its threads load.
  DEVICE int group_length(const Windows& all) const {
    const long long remaining = all.steps - first;
    return !is_there ? 0 : remaining < ROWS ? int(remaining) : ROWS;
  }

  DEVICE static Partition of_thread(const Windows& all, long long first) {
    const int lane = threadIdx.x / WIDTH;
    return Partition(all, lane < all.used() ? first + lane : -1, threadIdx.x % WIDTH);
  }
  DEVICE Partition(const Windows& all, long long part_of_all, int lane_column) {
    is_there = part_of_all >= 0 && part_of_all < all.all_parts();
    const int index = is_there ? int(part_of_all) : 0, parts = int(all.parts.number);
    const int group = all.parts.quotient(index), part = index - group * parts;
    outer = WIDTH == 1 ? group : all.column_groups.quotient(group);
    const long long groups = all.column_groups.number;
    column = WIDTH == 1 ? 0 : (group - outer * groups) * WIDTH + lane_column;
    first = part * (long long)ROWS;
    const long long remaining = all.steps - first;
    length = !is_there || column >= all.inner ? 0 : remaining < ROWS ? int(remaining) : ROWS;
    is_last = part == parts - 1;
  }
  // The first row, counted over all contiguous systems.
  DEVICE long long row(const Windows& all) const { return outer * all.steps + first; }
};

// The first partition of a window, and its rows if systems are contiguous.
struct Window {
  long long first, row, end;

  DEVICE Window(const Windows& all, long long number) {
    first = number * all.interior - all.halo;
    row = end = 0;
    if (WIDTH > 1) return;
    const long long parts = all.all_parts();
    row = Partition(all, first < 0 ? 0 : first, 0).row(all);
    const long long last = first + all.used() < parts ? first + all.used() - 1 : parts - 1;
    const Partition partition(all, last, 0);
    end = partition.row(all) + partition.length;
  }
};

DEVICE inline bool is_contiguous(const Windows& all, const Operand& operand) {
  return WIDTH == 1 && operand.outer == all.steps && operand.step == 1;
}
// The number of entries by which an array starts after a multiple of 16 bytes.
DEVICE inline int shift_of(const Windows& all, const Operand& operand, const Window& window) {
  if (PACK == 1 || !is_contiguous(all, operand)) return 0;
  return int((unsigned long long)(operand.data + window.row) / sizeof(T) % PACK);
}

// The first entry of dl and the last one of du, of all systems, may be outside their arrays. A word
// that has other entries, too, is in memory that exists.
struct Existing {
  bool first, last;
  DEVICE Existing(const Windows& all, const Window& window, int operand)
      : first(operand != 0 || window.row > 0 || all.before != nullptr),
        last(operand != 2 || window.end < all.groups * all.steps || all.after != nullptr) {}
  DEVICE bool has(int k, long long size) const {
    return (first || k > 0) && (last || k < size - 1);
  }
};

DEVICE inline void load_contiguous(T* to, const T* from, long long size, int shift,
                                   const Existing& existing) {
  // Entries before the first word, words, and remaining entries.
  const int ahead = shift == 0 ? 0 : PACK - shift < size ? PACK - shift : int(size);
  const int words = int(size - ahead) / PACK, tail = int(size - ahead) - words * PACK;
  const int thread = threadIdx.x;
  to += shift;
  if (thread < ahead && existing.has(thread, size)) copy_word(to + thread, from + thread);
  if (thread < tail) {
    const int k = ahead + words * PACK + thread;
    if (existing.has(k, size)) copy_word(to + k, from + k);
  }
  for (int k = threadIdx.x; k < words; k += THREADS)
    copy_word((Word*)(to + ahead) + k, (const Word*)(from + ahead) + k);
}

// The positions of a thread's rows in a tile.
struct Rows {
  int start;
  DEVICE Rows(const Windows& all, const Window& window, const Partition& partition)
      : start(WIDTH > 1 ? int(threadIdx.x) / WIDTH * ROWS * WIDTH + int(threadIdx.x) % WIDTH
              : partition.length > 0 ? int(partition.row(all) - window.row) : 0) {}
  DEVICE int operator()(int row) const { return start + row * WIDTH; }
};

// Load the rows of a partition's WIDTH columns, by words.
DEVICE inline void load_columns(T* to, const T* from, long long step, int length) {
  constexpr int WORDS = WIDTH >= PACK ? WIDTH / PACK : 1;
  const int lane = threadIdx.x % WIDTH;
#pragma unroll
  for (int k = 0; k < (ROWS * WORDS + WIDTH - 1) / WIDTH; ++k) {
    const int word = lane + k * WIDTH, row = word / WORDS, column = word % WORDS * PACK;
    if (row < length)
      copy_word((Word*)(to + row * WIDTH + column), (const Word*)(from + row * step + column));
  }
}

DEVICE inline void load_window(T* tile, const Windows& all, const Window& window,
                               const Partition& partition) {
  const Rows rows(all, window, partition);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Operand& operand = all.operands[k];
    T* to = tile + k * TILE;
    const T* from = operand.data + partition.outer * operand.outer +
                    partition.first * operand.step + partition.column * operand.inner;
    const int lane = threadIdx.x % WIDTH;
    if (is_contiguous(all, operand)) {
      load_contiguous(to, operand.data + window.row, window.end - window.row,
                      shift_of(all, operand, window), Existing(all, window, k));
    } else if (WIDTH > 1 && all.by_words && operand.inner == 1 && operand.step != 0) {
      load_columns(to + (rows.start - lane), from - lane, operand.step,
                   partition.group_length(all));
    } else {
#pragma unroll
      for (int row = 0; row < ROWS; ++row)
        if (row < partition.length) copy_word(to + rows(row), from + row * operand.step);
    }
  }
  copies_commit();
}

DEVICE inline bool is_at_start(const Partition& partition) {
  return partition.length > 0 && partition.first == 0;
}
DEVICE inline bool is_at_end(const Partition& partition) {
  return partition.length > 0 && partition.is_last;
}
// The known unknown before the first or after the last partition of a system; else 0.
DEVICE inline T known_before(const Windows& all, const Partition& partition) {
  if (all.before == nullptr || !is_at_start(partition)) return T(0);
  return all.before[partition.outer * all.inner + partition.column];
}
DEVICE inline T known_after(const Windows& all, const Partition& partition) {
  if (all.after == nullptr || !is_at_end(partition)) return T(0);
  return all.after[partition.outer * all.inner + partition.column];
}

// A row of a partition. The first and the last row of a system retain the coefficient of an
// unknown outside the system if that unknown is known: the bounds then cover how the solution
// depends on it, as on any separator. Rows missing in the last partition copy the unknown after the
// system to the separator, which is equal to it.
struct TileRow {
  T dl, d, du, b;
  template <bool IS_FULL>
  DEVICE static TileRow load(const T* tile, const int* offsets, int row, const Windows& all,
                             const Partition& partition) {
    const T* values = tile + row * WIDTH;
    TileRow full = {values[offsets[0]], values[offsets[1]], values[offsets[2]], values[offsets[3]]};
    if (IS_FULL) return full;
    const bool is_there = row < partition.length;
    const bool has_before = row > 0 || partition.first > 0 || all.before != nullptr;
    const bool has_after = row < partition.length - 1 || !partition.is_last || all.after != nullptr;
    if (is_there) return {has_before ? full.dl : T(0), full.d, has_after ? full.du : T(0), full.b};
    if (row == ROWS - 1) return {T(0), T(1), T(0), known_after(all, partition)};
    return {T(0), T(1), T(all.after != nullptr && is_at_end(partition) ? -1 : 0), T(0)};
  }
};

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

// The rows of a partition but the last, after elimination:
//   before·z[-1] + x[i] + after·x[i+1] = rhs, with z[-1] the separator before the partition.
struct Eliminated {
  T before[ROWS], after[ROWS], rhs[ROWS];
};

__shared__ T published[2][3][THREADS];
__shared__ Real passed[2][THREADS];
__shared__ long long interior_rows[2];

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

// The row of the first unknown of a partition, in the separators on both sides.
struct FirstRow { T before, after, rhs; };

// Eliminate all rows of a partition but the last; return the last.
template <bool IS_FULL>
DEVICE inline TileRow eliminate(const T* tile, const int* offsets, const Windows& all,
                                const Partition& partition, Eliminated& done, FirstRow& first,
                                Bounds& bounds) {
#pragma unroll
  for (int k = 0; k < ROWS - 1; ++k) {
    const TileRow row = TileRow::load<IS_FULL>(tile, offsets, k, all, partition);
    const T pivot = k == 0 ? row.d : minus_product(row.d, row.dl, done.after[k - 1]);
    bounds.pivot(pivot);
    const T inverse = inverse_of(pivot);
    done.before[k] = (k == 0 ? row.dl : T(0) - row.dl * done.before[k - 1]) * inverse;
    done.after[k] = row.du * inverse;
    done.rhs[k] = (k == 0 ? row.b : minus_product(row.b, row.dl, done.rhs[k - 1])) * inverse;
    bounds.ratio(done.before[k]);
    bounds.ratio(done.after[k]);
    if (k == 0) {
      first = {done.before[0], done.after[0], done.rhs[0]};
    } else {
      first.rhs = minus_product(first.rhs, first.after, done.rhs[k]);
      first.before = minus_product(first.before, first.after, done.before[k]);
      first.after = T(0) - first.after * done.after[k];
    }
  }
  return TileRow::load<IS_FULL>(tile, offsets, ROWS - 1, all, partition);
}

// Wait until the rows that this thread reads are loaded; threads load the columns they read.
DEVICE inline void await_loaded() {
  if (WIDTH > 1)
    __syncwarp();
  else
    __syncthreads();
}

DEVICE inline void solve_windows(const Windows& all) {
  T* tile = (T*)shared_bytes;
  T* results = tile + 4 * TILE;
  const int thread = threadIdx.x, lane = thread / WIDTH;
  if (blockIdx.x >= all.count || (all.is_settled != nullptr && *all.is_settled != 0)) return;
  Window window(all, blockIdx.x);
  Partition partition = Partition::of_thread(all, window.first);
  load_window(tile, all, window, partition);
  for (long long number = blockIdx.x; number < all.count; number += gridDim.x) {
    const Rows rows(all, window, partition);
    int offsets[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      offsets[k] = k * TILE + rows.start + shift_of(all, all.operands[k], window);
    // If systems are short, a warp would execute both branches.
    const bool is_inner = partition.first > 0 && !partition.is_last;
    const bool is_full = all.parts.number > 32 && partition.length == ROWS && is_inner;
    copies_wait();
    await_loaded();

    Eliminated done;
    Bounds bounds;
    FirstRow first;
    TileRow row = is_full ? eliminate<true>(tile, offsets, all, partition, done, first, bounds)
                          : eliminate<false>(tile, offsets, all, partition, done, first, bounds);
    bounds.ratio(first.before);
    bounds.ratio(first.after);
    published[1][0][thread] = first.before;
    published[1][1][thread] = first.after;
    published[1][2][thread] = first.rhs;
    const Partition current = partition;
    const Window current_window = window;
    const bool has_next = number + gridDim.x < all.count;
    if (has_next) {
      window = Window(all, number + gridDim.x);
      partition = Partition::of_thread(all, window.first);
    }
    if (WIDTH > 1 && has_next) {
      __syncwarp();
      load_window(tile, all, window, partition);
    }
    if (__syncthreads_or(bounds.are_exceeded())) {
      if (thread == 0) *all.is_solved = 0;
      return;
    }
    if (WIDTH == 1 && has_next) load_window(tile, all, window, partition);
    const T dl = row.dl, d = row.d, du = row.du, b = row.b;

    // The separator's row: before·z[-1] + z + after·z[+1] = rhs.
    const bool is_end = lane == LANES - 1 || current.is_last;
    const int next = is_end ? thread : thread + WIDTH;
    T pivot = minus_product(d, dl, done.after[ROWS - 2]);
    if (!is_end) pivot = minus_product(pivot, du, published[1][0][next]);
    bounds.pivot(pivot);
    const T inverse = inverse_of(pivot);
    T before = (T(0) - dl * done.before[ROWS - 2]) * inverse;
    T after = (is_end ? du : T(0) - du * published[1][1][next]) * inverse;
    T rhs = minus_product(b, dl, done.rhs[ROWS - 2]);
    if (!is_end) rhs = minus_product(rhs, du, published[1][2][next]);
    rhs = rhs * inverse;
    bounds.ratio(before);
    bounds.ratio(after);
    if (current.first == 0) {
      rhs = minus_product(rhs, before, known_before(all, current));
      before = T(0);
    }
    if (current.is_last) {
      rhs = minus_product(rhs, after, known_after(all, current));
      after = T(0);
    }
    const Real left = sum_of_parts(before), right = sum_of_parts(after);
    passed[0][thread] = left / (1 - right);
    passed[1][thread] = right / (1 - left);
    if (all.halo > 0) bounds.bad |= !(left + right <= Real(1.0001) && left < 1 && right < 1);
    if (is_end) after = T(0);
    if (lane == 0) before = T(0);
    int from = 0;
    published[0][0][thread] = before;
    published[0][1][thread] = after;
    published[0][2][thread] = rhs;
    bool is_coupled = __syncthreads_or(!(magnitude(before) <= APART && magnitude(after) <= APART));
    if (all.halo > 0 && lane == 0) {
      Real from_left = 1, from_right = passed[1][thread + (LANES - 1) * WIDTH];
      for (int k = 0; k < all.halo; ++k) {
        from_left *= passed[0][thread + k * WIDTH];
        from_right *= passed[1][thread + (LANES - 2 - k) * WIDTH];
      }
      bounds.bad |= !(from_left <= NEGLIGIBLE && from_right <= NEGLIGIBLE);
    }
    for (int distance = 1; distance < LANES && is_coupled; distance *= 2) {
      const bool has_left = lane >= distance, has_right = lane + distance < LANES;
      const int l = has_left ? thread - distance * WIDTH : thread;
      const int r = has_right ? thread + distance * WIDTH : thread;
      const T one = has_left ? before : T(0), other = has_right ? after : T(0);
      T pivot = minus_product(T(1), one, published[from][1][l]);
      pivot = minus_product(pivot, other, published[from][0][r]);
      bounds.bad |= !(magnitude(pivot) >= LEAST_PIVOT);
      const T inverse = inverse_of(pivot);
      rhs = minus_product(rhs, one, published[from][2][l]);
      rhs = minus_product(rhs, other, published[from][2][r]) * inverse;
      before = (T(0) - one * published[from][0][l]) * inverse;
      after = (T(0) - other * published[from][1][r]) * inverse;
      bounds.ratio(before);
      bounds.ratio(after);
      from = 1 - from;
      published[from][0][thread] = before;
      published[from][1][thread] = after;
      published[from][2][thread] = rhs;
      is_coupled = __syncthreads_or(!(magnitude(before) <= APART && magnitude(after) <= APART));
    }

    const bool is_first = lane == 0 || current.first == 0;
    const T z = is_first ? known_before(all, current) : published[from][2][thread - WIDTH];
    done.rhs[ROWS - 1] = rhs;
    T nonfinite = zero_or_nan(rhs);
#pragma unroll
    for (int row = ROWS - 2; row >= 0; --row) {
      const T value = minus_product(done.rhs[row], done.before[row], z);
      done.rhs[row] = minus_product(value, done.after[row], done.rhs[row + 1]);
      nonfinite = nonfinite + zero_or_nan(done.rhs[row]);
    }
    const bool counts = lane >= all.halo && lane < all.halo + all.interior && current.length > 0;
    // Unknowns of a halo may be nan at the outer end of a window.
    const bool is_bad = bounds.are_exceeded() || (counts && !(magnitude(nonfinite) == 0));
    if (WIDTH == 1) {
#pragma unroll
      for (int k = 0; k < ROWS; ++k)
        if (k < current.length) results[rows(k)] = done.rhs[k];
      // Rows of the interior are contiguous.
      if (counts && lane == all.halo) interior_rows[0] = current.row(all);
      const long long part = current_window.first + lane;
      const bool ends = lane == all.halo + all.interior - 1 || part == all.all_parts() - 1;
      if (counts && ends) interior_rows[1] = current.row(all) + current.length;
    }
    if (__syncthreads_or(is_bad)) {
      if (thread == 0) *all.is_solved = 0;
      return;
    }
    if (WIDTH == 1) {
      const long long first_row = interior_rows[0];
      const int size = int(interior_rows[1] - first_row);
      const T* stored = results + (first_row - current_window.row);
      T* to = all.result + first_row;
      for (int k = thread; k < size; k += THREADS) to[k] = stored[k];
    } else if (counts) {
      T* to = all.result + (current.outer * all.steps + current.first) * all.inner + current.column;
#pragma unroll
      for (int k = 0; k < ROWS; ++k)
        if (k < current.length) to[k * all.inner] = done.rhs[k];
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) window_kernel(const Windows all) {
  solve_windows(all);
}

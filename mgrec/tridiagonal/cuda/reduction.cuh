// Cyclic reduction without pivoting: SERICR has every other row on each level, PARACR all rows.
//
// The names are those of X. S. Pogorelskih and L. V. Loganova (ITNT 2019), after R. W. Hockney. On
// chip a block has a system. In memory a level is a launch over the rows of all systems.
#pragma once
#include "tridiagonal/cuda/systems.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(MOST_THREADS)
#define LONG long long

// Divide numbers that mostly have 32 bits: division of 64 bits takes four times as long.
DEVICE inline long long quotient(long long x, long long y) {
  return (x | y) >> 32 == 0 ? unsigned(x) / unsigned(y) : x / y;
}

// The system and the row of a number; threads of a launch have neighbouring numbers.
struct RowIndex {
  SystemIndex system;
  long long row;
  DEVICE RowIndex(const Systems& all, long long number, long long count) : system(all, 0) {
    const long long above = all.inner == 1 ? number : quotient(number, all.inner);
    system.column = number - above * all.inner;
    system.outer = quotient(above, count);
    system.number = system.outer * all.inner + system.column;
    row = above - system.outer * count;
  }
};

// Visit the rows of all systems, `count` each; `visit` gets a row's index and its number among all.
template <class Visit>
DEVICE inline void each_row(const Systems& all, long long count, Visit visit) {
  const long long size = all.count() * count, stride = gridDim.x * (long long)blockDim.x;
  for (long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x; n < size; n += stride)
    visit(RowIndex(all, n, count), n);
}

// A level in memory, in the layout of the operands: (4, outer, count, inner) numbers from `offset`
// of the scratch memory; a negative offset means the operands.
DEVICE inline Level level_of(const Systems& all, const SystemIndex& system, long long offset,
                             long long count) {
  if (offset < 0) return {nullptr, count, 0, 0};
  T* data = all.scratch + (offset + system.outer * count * all.inner + system.column);
  return {data, count, all.inner, all.count() * count};
}

DEVICE inline void note(const Systems& all, const SystemIndex& system, const Equation& row) {
  if (!is_finite(row)) all.note_nonfinite(system.number);
}

// An unknown; `is_bad` becomes true if the pivot is 0, or overflows.
DEVICE inline T solved(T k, T b, bool& is_bad) {
  const T x = k / b;
  is_bad = is_bad || !is_pivot(b) || !is_finite(x);
  return x;
}

DEVICE inline void store_solution(const Systems& all, const SystemIndex& system, T* to, T x,
                                  bool is_bad) {
  const bool is_known = all.has_finite(system.number);
  *to = is_known ? x : nan_of();
  if (is_bad && is_known) all.note_singular(system.number);
}

// SERICR: row i of the level above, which has the rows of odd numbers with neighbours eliminated.
DEVICE inline Equation raised(const Systems& all, const SystemIndex& system, const Level& level,
                              long long i) {
  return reduced(level.load(all, system, 2 * i + 1), level.load(all, system, 2 * i),
                 level.load(all, system, 2 * i + 2));
}
// Pass rows 2·i and 2·i + 1 and their unknowns, from those of the level above, to `put`.
template <class Above, class Put>
DEVICE inline void lower(const Systems& all, const SystemIndex& system, const Level& level,
                         long long i, Above above, bool& is_bad, Put put) {
  const Equation row = level.load(all, system, 2 * i);
  T k = row.k;
  if (i > 0) k = minus_product(k, row.a, above(i - 1));
  if (2 * i + 1 < level.count) {
    const T x = above(i);
    k = minus_product(k, row.c, x);
    put(2 * i + 1, x);
  }
  put(2 * i, solved(k, row.b, is_bad));
}

// Note in the status whether any thread of the block, which has one system, saw nan or inf.
DEVICE inline void note_together(const Systems& all, const SystemIndex& system, bool is_nonfinite) {
  if (__syncthreads_or(is_nonfinite) && threadIdx.x == 0) all.note_nonfinite(system.number);
  __syncthreads();
}

// The arrays of a level on chip, with a gap after every 128 bytes, so that rows at distances of
// 2, 4, ... are in different banks.
struct Chip {
  long long apart;
  DEVICE explicit Chip(long long count) : apart(count + count / GAP + 1) {}
  static constexpr int GAP = 128 / sizeof(T);
  DEVICE T& at(int which, long long i) const {
    return ((T*)shared_bytes)[which * apart + i + i / GAP];
  }
};

// One of two levels of a system, of which SHARED arrays are on chip: all four, or b and k.
template <int SHARED> struct HalfOnChip {
  T* memory;
  int n, level;
  DEVICE HalfOnChip(const Systems& all, const SystemIndex& system, int level)
      : memory(all.scratch + system.number * (2 * (4 - SHARED)) * all.steps), n(int(all.steps)),
        level(level) {}
  DEVICE T& at(int which, int i) const {
    const int slot = SHARED == 4 ? which : which / 2;
    T* on_chip = (T*)shared_bytes + (level * SHARED + slot) * n;
    if (SHARED == 4 || which % 2 == 1) return on_chip[i];
    return memory[(level * (4 - SHARED) + slot) * n + i];
  }
  DEVICE Equation load(int i) const { return i < 0 || i >= n ? row_outside() : load_row(*this, i); }
};

// PARACR of a system by one block.
template <int SHARED> DEVICE inline void solve_in_parallel(const Systems& all) {
  const SystemIndex system(all, blockIdx.x);
  const int n = int(all.steps), thread = threadIdx.x, threads = blockDim.x;
  HalfOnChip<SHARED> level(all, system, 0), next(all, system, 1);
  bool is_nonfinite = false, is_bad = false;
  for (int i = thread; i < n; i += threads) {
    const Equation row = equation(all, system, i);
    is_nonfinite = is_nonfinite || !is_finite(row);
    store_row(level, i, row);
  }
  note_together(all, system, is_nonfinite);
  for (int h = 1; h < n; h *= 2) {
    for (int i = thread; i < n; i += threads)
      store_row(next, i, reduced(level.load(i), level.load(i - h), level.load(i + h)));
    level.level = next.level;
    next.level = 1 - level.level;
    __syncthreads();
  }
  for (int i = thread; i < n; i += threads) {
    const T x = solved(level.at(3, i), level.at(1, i), is_bad);
    store_solution(all, system, system.result(all) + i * all.inner, x, is_bad);
  }
}

// SERICR of a level by one block, in place: on the level of distance h are rows h - 1, 2·h - 1, ...
KERNEL chip_kernel(const Systems all, LONG from, LONG count) {
  const SystemIndex system(all, blockIdx.x);
  const Level level = level_of(all, system, from, count);
  const Chip chip(count);
  const int n = int(count), thread = threadIdx.x, threads = blockDim.x;
  bool is_nonfinite = false, is_bad = false;
  for (int i = thread; i < n; i += threads) {
    const Equation row = level.load(all, system, i);
    is_nonfinite = is_nonfinite || (from < 0 && !is_finite(row));
    store_row(chip, i, row);
  }
  note_together(all, system, is_nonfinite);
  int h = 1;
  for (; 2 * h <= n; h *= 2) {
    for (int i = 2 * h * (thread + 1) - 1; i < n; i += 2 * h * threads)
      store_row(chip, i, reduced(load_row(chip, i), load_row(chip, i - h),
                                 i + h < n ? load_row(chip, i + h) : row_outside()));
    __syncthreads();
  }
  for (; h > 0; h /= 2) {
    for (int i = h * (2 * thread + 1) - 1; i < n; i += 2 * h * threads) {
      T k = chip.at(3, i);
      if (i >= h) k = minus_product(k, chip.at(0, i), chip.at(3, i - h));
      if (i + h < n) k = minus_product(k, chip.at(2, i), chip.at(3, i + h));
      chip.at(3, i) = solved(k, chip.at(1, i), is_bad);
    }
    __syncthreads();
  }
  for (int i = thread; i < n; i += threads) {
    T* to = from < 0 ? system.result(all) + i * all.inner : &level.at(3, i);
    store_solution(all, system, to, chip.at(3, i), is_bad);
  }
}

KERNEL raise_kernel(const Systems all, LONG from, LONG count, LONG to) {
  each_row(all, count / 2, [&](const RowIndex& index, LONG) {
    const Level level = level_of(all, index.system, from, count);
    if (from < 0)
      for (int k = 0; k < (2 * index.row + 3 < count ? 2 : 3); ++k)
        note(all, index.system, level.load(all, index.system, 2 * index.row + k));
    store_row(level_of(all, index.system, to, count / 2), index.row,
              raised(all, index.system, level, index.row));
  });
}
KERNEL lower_kernel(const Systems all, LONG from, LONG count, LONG to) {
  each_row(all, (count + 1) / 2, [&](const RowIndex& index, LONG) {
    const Level level = level_of(all, index.system, from, count);
    const Level above = level_of(all, index.system, to, count / 2);
    bool is_bad = false;
    lower(all, index.system, level, index.row, [&](LONG i) { return above.at(3, i); }, is_bad,
          [&](LONG i, T x) {
            T* target = from < 0 ? index.system.result(all) + i * all.inner : &level.at(3, i);
            store_solution(all, index.system, target, x, is_bad);
          });
  });
}
// PARACR: eliminate the rows at a distance from every row.
KERNEL reduce_kernel(const Systems all, LONG from, LONG to, LONG distance) {
  each_row(all, all.steps, [&](const RowIndex& index, LONG) {
    const Level level = level_of(all, index.system, from, all.steps);
    const Equation row = level.load(all, index.system, index.row);
    if (from < 0) note(all, index.system, row);
    store_row(level_of(all, index.system, to, all.steps), index.row,
              reduced(row, level.load(all, index.system, index.row - distance),
                      level.load(all, index.system, index.row + distance)));
  });
}
KERNEL divide_kernel(const Systems all, LONG from) {
  each_row(all, all.steps, [&](const RowIndex& index, LONG number) {
    const Level level = level_of(all, index.system, from, all.steps);
    bool is_bad = false;
    const T x = solved(level.at(3, index.row), level.at(1, index.row), is_bad);
    store_solution(all, index.system, all.result + number, x, is_bad);
  });
}
KERNEL all_kernel(const Systems all) { solve_in_parallel<4>(all); }
KERNEL part_kernel(const Systems all) { solve_in_parallel<2>(all); }

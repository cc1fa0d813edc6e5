// Elimination with scaled partial pivoting over a partition, with two pending rows (`PendingRows`).
//
// tridiagonal/cpu/elimination.py has the same steps, and explains them. After x[1] ... x[i-1] are
// eliminated the two pending rows are
//   near·x[i] + far·x[i+1] + before·x[-1] + first·x[0] = rhs.
//
// A cell has the two rows of a part, a partition or a group of them, each as coefficients of
// (last[k-1], first[k], last[k], first[k+1]) and right-hand side.
#pragma once
#include "tridiagonal/cuda/numbers.cuh"

// A row: the coefficient of the next unknown to eliminate, other coefficients, the right-hand side.
template <int N> struct Row {
  T v[N];
  DEVICE T& operator[](int k) { return v[k]; }
  DEVICE T operator[](int k) const { return v[k]; }
};

// Put the row with the larger leading coefficient first; `one` if they are equal.
template <int N> DEVICE inline void order(Row<N>& one, Row<N>& other) {
  const bool swap = magnitude(other[0]) > magnitude(one[0]);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const T x = one[k], y = other[k];
    one[k] = swap ? y : x;
    other[k] = swap ? x : y;
  }
}

// The inverse of a pivot: a power of two and a factor, so that none overflows.
struct Inverse {
  Real scale;
  T factor;
  DEVICE explicit Inverse(T pivot) : scale(scale_of(magnitude(pivot))) {
    factor = inverse_of(scaled(pivot, scale));
  }
  DEVICE T ratio(T x) const { return scaled(x, scale) * factor; }
  DEVICE T value() const { return scaled(factor, scale); }
};

template <int N>
DEVICE inline Row<N - 1> eliminated(const Row<N>& row, const Row<N>& pivot, const Inverse& inverse) {
  const T m = inverse.ratio(row[0]);
  Row<N - 1> result;
#pragma unroll
  for (int k = 1; k < N; ++k) result[k - 1] = minus_product(row[k], m, pivot[k]);
  return result;
}

// If before or first exceeds LIMIT, `part` eliminates that unknown from one of the rows.
constexpr int LIMIT = 8;

// The largest of two numbers.
DEVICE inline Real larger_of(T x, T y) { return larger(magnitude(x), magnitude(y)); }

DEVICE inline Row<5> made_small(Row<5> row) {
  const Real size = larger(larger_of(row[0], row[1]), larger_of(row[2], row[3]));
  const Real scale = scale_of(larger(size, Real(1)));
#pragma unroll
  for (int k = 0; k < 5; ++k) row[k] = scaled(row[k], scale);
  return row;
}

// near, far, before, first, rhs of the two pending rows.
struct PendingRows {
  Row<5> upper, lower;

  // Before row 0: before - x[-1] = 0 and first - x[0] = 0.
  DEVICE static PendingRows copies() {
    return {{{T(-1), T(0), T(1), T(0), T(0)}}, {{T(0), T(-1), T(0), T(1), T(0)}}};
  }
  DEVICE bool is_large() const {
    return larger(larger_of(upper[2], upper[3]), larger_of(lower[2], lower[3])) > LIMIT;
  }
  DEVICE void part() {
    if (!is_large()) return;
    const bool swap = larger_of(lower[2], lower[3]) > larger_of(upper[2], upper[3]);
    const Row<5> big = swap ? lower : upper, small = swap ? upper : lower;
    const bool is_before = magnitude(big[2]) > magnitude(big[3]);
    const int lead = is_before ? 2 : 3;
    const T lead_big = is_before ? big[2] : big[3], second_big = is_before ? big[3] : big[2];
    const T lead_small = is_before ? small[2] : small[3];
    const T second_small = is_before ? small[3] : small[2];
    const Row<5> pivot = {{lead_big, big[0], big[1], second_big, big[4]}};
    const Row<5> row = {{lead_small, small[0], small[1], second_small, small[4]}};
    const Row<4> left = eliminated(row, pivot, Inverse(lead_big));
    const Row<5> freed = {{left[0], left[1], lead == 2 ? T(0) : left[2],
                              lead == 2 ? left[2] : T(0), left[3]}};
    upper = made_small(big);
    lower = made_small(freed);
  }
};

// Row i + 1 of a system, scaled; `nonfinite` becomes nan if the row contains nan or inf.
DEVICE inline Row<4> scaled_row(T dl, T d, T du, T b, T& nonfinite) {
  const Real scale = scale_of(larger(magnitude(dl), larger(magnitude(d), magnitude(du))));
  const Row<4> row = {{scaled(dl, scale), scaled(d, scale), scaled(du, scale), scaled(b, scale)}};
  nonfinite = nonfinite + zero_or_nan((row[0] + row[1]) + (row[2] + b));
  return row;
}

// Eliminate x[i] from the two pending rows and row i + 1; return the pivot row: the coefficients of
// x[i], x[i+1], x[i+2], before, first, and the right-hand side. The caller calls `part`.
DEVICE inline Row<6> advance(PendingRows& pending, const Row<4>& row, Inverse& inverse) {
  const Row<5>&u = pending.upper, &l = pending.lower;
  Row<6> pivot = {{u[0], u[1], T(0), u[2], u[3], u[4]}};
  Row<6> one = {{l[0], l[1], T(0), l[2], l[3], l[4]}};
  Row<6> other = {{row[0], row[1], row[2], T(0), T(0), row[3]}};
  order(pivot, one);
  order(pivot, other);
  inverse = Inverse(pivot[0]);
  pending.upper = eliminated(one, pivot, inverse);
  pending.lower = eliminated(other, pivot, inverse);
  return pivot;
}

// The smallest pivot of an elimination, and nan if a row contained nan or inf.
struct Pivots {
  Real least = 1;
  T nonfinite = T(0);
  DEVICE void take(Real size) { least = size < least ? size : least; }
};

DEVICE inline void write_cell(T* cell, const PendingRows& pending, const Pivots& seen) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Row<5>& row = r ? pending.lower : pending.upper;
    const T numbers[5] = {row[2], row[3], row[0], row[1], row[4]};
#pragma unroll
    for (int k = 0; k < 5; ++k)
      cell[5 * r + k] = (seen.least > 0 ? numbers[k] : T(0)) + seen.nonfinite;
  }
}

DEVICE inline Row<5> cell_row(const T* cell, Pivots& seen) {
  const Real size = larger(larger_of(cell[0], cell[1]), larger_of(cell[2], cell[3]));
  const Real scale = scale_of(size);
  Row<5> row;
#pragma unroll
  for (int k = 0; k < 5; ++k) row[k] = scaled(cell[k], scale);
  seen.nonfinite = seen.nonfinite + zero_or_nan(((row[0] + row[1]) + (row[2] + row[3])) + cell[4]);
  seen.take(size);
  return row;
}

// Eliminate last[k-1] and first[k] from the pending rows and the rows of part k.
DEVICE inline void advance_part(PendingRows& pending, const T* cell, Pivots& seen, Row<7>& pivot,
                                Row<6>& second) {
  const Row<5> a = cell_row(cell, seen), b = cell_row(cell + 5, seen);
  const Row<5>&u = pending.upper, &l = pending.lower;
  pivot = {{a[0], a[1], a[2], a[3], T(0), T(0), a[4]}};
  Row<7> one = {{b[0], b[1], b[2], b[3], T(0), T(0), b[4]}};
  Row<7> upper = {{u[0], u[1], T(0), T(0), u[2], u[3], u[4]}};
  Row<7> lower = {{l[0], l[1], T(0), T(0), l[2], l[3], l[4]}};
  order(pivot, one);
  order(pivot, upper);
  order(pivot, lower);
  const Inverse inverse(pivot[0]);
  second = eliminated(upper, pivot, inverse);
  Row<6> low = eliminated(lower, pivot, inverse), third = eliminated(one, pivot, inverse);
  order(second, low);
  order(second, third);
  const Inverse inverse_second(second[0]);
  pending.upper = eliminated(low, second, inverse_second);
  pending.lower = eliminated(third, second, inverse_second);
  pending.part();
  seen.take(magnitude(pivot[0]));
  seen.take(magnitude(second[0]));
}

// Reduce `count` parts to one cell.
DEVICE inline void merge_cells(const T* cells, int count, T* merged) {
  PendingRows pending = PendingRows::copies();
  Pivots seen;
  Row<7> pivot;
  Row<6> second;
  for (int k = 0; k < count; ++k) advance_part(pending, cells + 10 * k, seen, pivot, second);
  write_cell(merged, pending, seen);
}

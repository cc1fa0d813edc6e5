// Elimination with scaled partial pivoting over a partition, and its two pending rows (`Held`).
//
// tridiagonal/cpu/elimination.py has the same steps, and explains them. After x[1] ... x[i-1] are
// eliminated the two pending rows are
//   near·x[i] + far·x[i+1] + before·x[-1] + first·x[0] = rhs.
#pragma once

// An operand, which kernels of tridiagonal systems take by value.
struct Operand {
  const T* data;
  long long outer, step, inner;  // strides in numbers; 0 along a broadcast axis
};

DEVICE inline float magnitude(float x) { return fabs(x); }
DEVICE inline double magnitude(double x) { return fabs(x); }
template <class R> DEVICE inline R magnitude(complex<R> x) {
  const R a = fabs(x.re), b = fabs(x.im);
  return a > b ? a : b;
}
template <class R> DEVICE inline R larger(R x, R y) { return x > y ? x : y; }
// The power of two that brings `size` to 1 or more and below 4; 1 for 0.
template <class R> DEVICE inline R scale_of(R size) { return size == R(0) ? R(1) : inverse_power(size); }
template <class T> DEVICE inline T scaled(T x, T by) { return x * by; }
template <class R> DEVICE inline complex<R> scaled(complex<R> x, R by) { return {x.re * by, x.im * by}; }

// 1/y for y of the size of 1.
template <class T> DEVICE inline T inverse_of(T y) { return rough_reciprocal(y); }
template <class R> DEVICE inline complex<R> inverse_of(complex<R> y) {
  const R square = rough_reciprocal(y.re * y.re + y.im * y.im);
  return {y.re * square, -y.im * square};
}

// a - m·b
DEVICE inline float minus_product(float a, float m, float b) { return fma(-m, b, a); }
DEVICE inline double minus_product(double a, double m, double b) { return fma(-m, b, a); }
template <class R> DEVICE inline complex<R> minus_product(complex<R> a, complex<R> m, complex<R> b) {
  return {fma(-m.re, b.re, fma(m.im, b.im, a.re)), fma(-m.re, b.im, fma(-m.im, b.re, a.im))};
}

// x - x: 0, or nan if x is nan or inf.
template <class T> DEVICE inline T odd_part(T x) { return x - x; }

// A row: the coefficient of the next unknown to eliminate, other coefficients, the right-hand side.
template <class T, int N> struct Row {
  T v[N];
  DEVICE T& operator[](int k) { return v[k]; }
  DEVICE T operator[](int k) const { return v[k]; }
};

// Put the row with the larger leading coefficient first; `one` if they are equal.
template <class T, int N> DEVICE inline void order(Row<T, N>& one, Row<T, N>& other) {
  const bool swap = magnitude(other[0]) > magnitude(one[0]);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const T x = one[k], y = other[k];
    one[k] = swap ? y : x;
    other[k] = swap ? x : y;
  }
}

// The inverse of a pivot: a power of two and a factor, so that none overflows.
template <class T> struct Inverse {
  decltype(magnitude(T())) scale;
  T rest;
  DEVICE explicit Inverse(T pivot) : scale(scale_of(magnitude(pivot))) {
    rest = inverse_of(scaled(pivot, scale));
  }
  DEVICE T ratio(T x) const { return scaled(x, scale) * rest; }
  DEVICE T value() const { return scaled(rest, scale); }
};

template <class T, int N>
DEVICE inline Row<T, N - 1> eliminated(const Row<T, N>& row, const Row<T, N>& pivot,
                                       const Inverse<T>& inverse) {
  const T m = inverse.ratio(row[0]);
  Row<T, N - 1> rest;
#pragma unroll
  for (int k = 1; k < N; ++k) rest[k - 1] = minus_product(row[k], m, pivot[k]);
  return rest;
}

// near, far, before, first, rhs of the two pending rows.
template <class T> struct Held {
  Row<T, 5> upper, lower;

  // Before row 0: before - x[-1] = 0 and first - x[0] = 0.
  DEVICE static Held copies() {
    return {{{T(-1), T(0), T(1), T(0), T(0)}}, {{T(0), T(-1), T(0), T(1), T(0)}}};
  }
  DEVICE bool is_large() const;
  DEVICE void part();
};

template <class T> DEVICE inline Row<T, 5> made_small(Row<T, 5> row) {
  auto size = larger(magnitude(row[0]), magnitude(row[1]));
  size = larger(size, larger(magnitude(row[2]), magnitude(row[3])));
  const auto scale = scale_of(larger(size, decltype(size)(1)));
#pragma unroll
  for (int k = 0; k < 5; ++k) row[k] = scaled(row[k], scale);
  return row;
}

// If before or first exceeds LIMIT, `part` eliminates that unknown from one of the rows.
constexpr int LIMIT = 8;

template <class T> DEVICE inline bool Held<T>::is_large() const {
  const auto size = larger(magnitude(upper[2]), magnitude(upper[3]));
  return larger(size, larger(magnitude(lower[2]), magnitude(lower[3]))) > LIMIT;
}

template <class T> DEVICE inline void Held<T>::part() {
  if (!is_large()) return;
  const auto size = larger(magnitude(upper[2]), magnitude(upper[3]));
  const auto other = larger(magnitude(lower[2]), magnitude(lower[3]));
  const bool swap = other > size;
  const Row<T, 5> big = swap ? lower : upper, small = swap ? upper : lower;
  const bool is_before = magnitude(big[2]) > magnitude(big[3]);
  const int lead = is_before ? 2 : 3;
  const T lead_big = is_before ? big[2] : big[3], rest_big = is_before ? big[3] : big[2];
  const T lead_small = is_before ? small[2] : small[3], rest_small = is_before ? small[3] : small[2];
  const Row<T, 5> pivot = {{lead_big, big[0], big[1], rest_big, big[4]}};
  const Row<T, 5> row = {{lead_small, small[0], small[1], rest_small, small[4]}};
  const Row<T, 4> left = eliminated(row, pivot, Inverse<T>(lead_big));
  const Row<T, 5> freed = {{left[0], left[1], lead == 2 ? T(0) : left[2],
                            lead == 2 ? left[2] : T(0), left[3]}};
  upper = made_small(big);
  lower = made_small(freed);
}

// Row i + 1 of a system, scaled; `odd` becomes nan if the row contains nan or inf.
template <class T> DEVICE inline Row<T, 4> scaled_row(T dl, T d, T du, T b, T& odd) {
  const auto scale = scale_of(larger(magnitude(dl), larger(magnitude(d), magnitude(du))));
  const Row<T, 4> row = {{scaled(dl, scale), scaled(d, scale), scaled(du, scale), scaled(b, scale)}};
  odd = odd + odd_part((row[0] + row[1]) + (row[2] + b));
  return row;
}

// Eliminate x[i] from the two pending rows and row i + 1; return the pivot row: the coefficients of
// x[i], x[i+1], x[i+2], before, first, and the right-hand side. The caller calls `part`.
template <class T>
DEVICE inline Row<T, 6> advance(Held<T>& held, const Row<T, 4>& row, Inverse<T>& inverse) {
  const Row<T, 5>&u = held.upper, &l = held.lower;
  Row<T, 6> pivot = {{u[0], u[1], T(0), u[2], u[3], u[4]}};
  Row<T, 6> one = {{l[0], l[1], T(0), l[2], l[3], l[4]}};
  Row<T, 6> other = {{row[0], row[1], row[2], T(0), T(0), row[3]}};
  order(pivot, one);
  order(pivot, other);
  inverse = Inverse<T>(pivot[0]);
  held.upper = eliminated(one, pivot, inverse);
  held.lower = eliminated(other, pivot, inverse);
  return pivot;
}

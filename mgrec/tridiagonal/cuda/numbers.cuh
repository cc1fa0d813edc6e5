// Numbers T of tridiagonal systems, real or complex, and operands.
#pragma once

// An operand, which kernels take by value.
struct Operand {
  const T* data;
  long long outer, step, inner;  // strides in numbers; 0 along a broadcast axis
};

// The systems of a chunk, in parts.
struct System {
  Operand operands[4];  // dl, d, du and b
  T* result;
  T* cells;
  T* cuts;
  long long outer, steps, inner, parts;
  long long has_first, has_last;  // 1: all systems; 2: the first, the last one
  DEVICE long long lanes() const { return outer * inner * parts; }
};

DEVICE inline float magnitude(float x) { return fabs(x); }
DEVICE inline double magnitude(double x) { return fabs(x); }
template <class R> DEVICE inline R magnitude(complex<R> x) {
  const R a = fabs(x.re), b = fabs(x.im);
  return a > b ? a : b;
}
typedef decltype(magnitude(T())) Real;

DEVICE inline Real larger(Real x, Real y) { return x > y ? x : y; }
// The power of two that brings `size` to 1 or more and below 4; 1 for 0.
DEVICE inline Real scale_of(Real size) { return size == Real(0) ? Real(1) : inverse_power(size); }
DEVICE inline Real scaled(Real x, Real by) { return x * by; }
template <class R> DEVICE inline complex<R> scaled(complex<R> x, R by) { return {x.re * by, x.im * by}; }

// 1/y for y of the size of 1.
DEVICE inline Real inverse_of(Real y) { return rough_reciprocal(y); }
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

// Return 0, or nan if x is nan or inf.
DEVICE inline T zero_or_nan(T x) { return x - x; }
DEVICE inline bool is_finite(T x) { return x - x == T(0); }

// Rows at multiples of 16 bytes are copied by words.
constexpr int PACK = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
struct alignas(16) Word { T v[PACK]; };

extern __shared__ __align__(16) unsigned char shared_bytes[];

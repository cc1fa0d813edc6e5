// Maps w -> A·w + B whose A underflows, told from those that a coefficient of 0 ended.
//
// A product that underflowed has lost digits, and the exact one may be 0 or not. It stays at the
// smallest number or above it, and counts as 0 where it meets a state. Where it meets an A that has
// grown, what it lost would show: then the map is nan, and its steps are done again by the loop.
#pragma once

constexpr bool TRACKED = GUARDED && Transfer::WIDTH == 2;

// The smallest number, the smallest that has all its digits, one that is far below overflow, and how
// small a state is beside another of which 2^-126 (2^-1022) are less than its rounding error.
template <class R> struct Range {
  static constexpr double SMALLEST = 4.9e-324, NORMAL = 0x1p-1022, MODERATE = 1e305, APART = 0x1p-960;
};
template <> struct Range<float> {
  static constexpr float SMALLEST = 1.4e-45f, NORMAL = 0x1p-126f, MODERATE = 1e36f, APART = 0x1p-100f;
};

template <class I> DEVICE inline double size_of(I x) { return fabs(double(x)); }
DEVICE inline float size_of(float x) { return fabs(x); }
DEVICE inline double size_of(double x) { return fabs(x); }
template <class R> DEVICE inline R size_of(complex<R> x) { return fmax(fabs(x.re), fabs(x.im)); }
typedef decltype(size_of(T())) Size;
typedef Range<Size> Limits;

template <class I> DEVICE inline I unknown(I x) { return x; }
DEVICE inline float unknown(float) { return not_a_number<float>(); }
DEVICE inline double unknown(double) { return not_a_number<double>(); }
template <class R> DEVICE inline complex<R> unknown(complex<R>) {
  return {not_a_number<R>(), not_a_number<R>()};
}

DEVICE inline bool is_lost(T product) {
  return size_of(product) > Size(0) && size_of(product) < Limits::NORMAL;
}

// Sizes above which it shows what an underflowed product has lost: 1e-32 (1e-302) at most.
constexpr Size LARGE = Size(1e6);

DEVICE inline Transfer::Map compose(const Transfer::Map& earlier, const Transfer::Map& later) {
  Transfer::Map map = Transfer::compose(earlier, later);
  if constexpr (TRACKED) {
    const T first = earlier.v[0], second = later.v[0];
    const bool is_nonzero = size_of(first) > Size(0) && size_of(second) > Size(0);
    if (is_nonzero && size_of(map.v[0]) == Size(0)) map.v[0] = cast<T>(Size(Limits::SMALLEST));
    if (is_lost(second) && size_of(first) > LARGE) map.v[0] = unknown(first);
  }
  return map;
}

// A thread's own steps, composed one by one: has_zero() tells whether a coefficient is 0.
template <class HasZero>
DEVICE inline Transfer::Map tracked(const Transfer::Map& steps, HasZero has_zero) {
  Transfer::Map map = steps;
  if constexpr (TRACKED)
    if (size_of(map.v[0]) == Size(0) && !has_zero()) map.v[0] = cast<T>(Size(Limits::SMALLEST));
  return map;
}

DEVICE inline Transfer::State apply(const Transfer::Map& map, const Transfer::State& state) {
  Transfer::Map known = map;
  if constexpr (TRACKED)
    if (size_of(map.v[0]) <= Limits::SMALLEST) known.v[0] = cast<T>(0);
  return Transfer::apply(known, state);
}

// Maps w -> A·w + B whose A underflows.
//
// A product below the normal numbers has lost digits. Where it meets an A that has grown, what it
// lost would show: then the map is nan, and its steps are done again by the loop.
#pragma once

constexpr bool TRACKED = GUARDED && Transfer::WIDTH == 2;

// The smallest number that has all its digits, one that is far below overflow, and how small a state
// is beside another of which 2^-126 (2^-1022) are less than its rounding error.
template <class R> struct Range {
  static constexpr double NORMAL = 0x1p-1022, MODERATE = 1e305, APART = 0x1p-960;
};
template <> struct Range<float> {
  static constexpr float NORMAL = 0x1p-126f, MODERATE = 1e36f, APART = 0x1p-100f;
};

template <class I> DEVICE inline double size_of(I x) { return fabs(double(x)); }
DEVICE inline float size_of(float x) { return fabs(x); }
DEVICE inline double size_of(double x) { return fabs(x); }
template <class R> DEVICE inline R size_of(complex<R> x) { return fmax(fabs(x.re), fabs(x.im)); }
typedef decltype(size_of(T())) Size;
typedef Range<Size> Limits;

// A coefficient of 0 is taken for a lost product as well: to tell them apart took 1% of the time.
// So is one of rows that grow by LARGE and begin anew, and these are done again in vain.
DEVICE inline bool is_lost(T product) { return size_of(product) < Limits::NORMAL; }

// Sizes above which it shows what an underflowed product has lost: 1e-39 (5e-318) at least.
constexpr Size LARGE = Size(1e6);

// x·y + trace: nothing comes after the product, which the look-ahead waits for.
template <class I, class S> DEVICE inline I product_of(I x, I y, S) { return np_multiply(x, y); }
DEVICE inline float product_of(float x, float y, float trace) { return fma(x, y, trace); }
DEVICE inline double product_of(double x, double y, double trace) { return fma(x, y, trace); }
template <class R> DEVICE inline complex<R> product_of(complex<R> x, complex<R> y, R trace) {
  const complex<R> product = x * y;
  return {product.re + trace, product.im + trace};
}

DEVICE inline Transfer::Map compose(const Transfer::Map& earlier, const Transfer::Map& later) {
  Transfer::Map map = Transfer::compose(earlier, later);
  if constexpr (TRACKED) {
    const bool shows = is_lost(later.v[0]) && size_of(earlier.v[0]) > LARGE;
    map.v[0] = product_of(earlier.v[0], later.v[0], shows ? not_a_number<Size>() : Size(0));
  }
  return map;
}

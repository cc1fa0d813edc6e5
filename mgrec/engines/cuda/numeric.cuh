// NumPy's scalar functions, with NumPy's meaning for nan, signs and wrapping integers.
// Compiles for the device (NVRTC) and, for tests, for the host (DEVICE is then empty).
#pragma once

template <class T> struct is_real { static constexpr bool value = false; };
template <> struct is_real<float> { static constexpr bool value = true; };
template <> struct is_real<double> { static constexpr bool value = true; };

template <class T> DEVICE inline T infinity() { return T(1e300) * T(1e300); }
template <> DEVICE inline float infinity<float>() { return 1e38f * 1e38f; }
template <class T> DEVICE inline T not_a_number() { return infinity<T>() - infinity<T>(); }

// Complex numbers and the conversions between scalar types.

template <class R> struct alignas(2 * sizeof(R)) complex {
  R re, im;
  complex() = default;
  DEVICE constexpr complex(R real, R imag = R(0)) : re(real), im(imag) {}
};

template <class R> DEVICE inline complex<R> operator+(complex<R> x, complex<R> y) {
  return {x.re + y.re, x.im + y.im};
}
template <class R> DEVICE inline complex<R> operator-(complex<R> x, complex<R> y) {
  return {x.re - y.re, x.im - y.im};
}
template <class R> DEVICE inline complex<R> operator*(complex<R> x, complex<R> y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
// Smith (1962): the plain formula overflows where |y|² does.
template <class R> DEVICE inline complex<R> operator/(complex<R> x, complex<R> y) {
  if (fabs(y.re) >= fabs(y.im)) {
    if (y.re == R(0)) return {x.re / fabs(y.re), x.im / fabs(y.re)};
    const R ratio = y.im / y.re, scale = R(1) / (y.re + y.im * ratio);
    return {(x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale};
  }
  const R ratio = y.re / y.im, scale = R(1) / (y.re * ratio + y.im);
  return {(x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale};
}
template <class R> DEVICE inline bool operator==(complex<R> x, complex<R> y) {
  return x.re == y.re && x.im == y.im;
}
template <class R> DEVICE inline bool operator!=(complex<R> x, complex<R> y) { return !(x == y); }

template <class T> struct is_integer { static constexpr bool value = !is_real<T>::value; };
template <> struct is_integer<bool> { static constexpr bool value = false; };
template <class R> struct is_integer<complex<R>> { static constexpr bool value = false; };

template <class T> struct convert {
  template <class U> DEVICE static T from(U x) { return T(x); }
};
template <class R> struct convert<complex<R>> {
  template <class U> DEVICE static complex<R> from(U x) { return {R(x), R(0)}; }
  template <class S> DEVICE static complex<R> from(complex<S> x) { return {R(x.re), R(x.im)}; }
};

template <class T> DEVICE inline T conjugate_of(T x) { return x; }
template <class R> DEVICE inline complex<R> conjugate_of(complex<R> x) { return {x.re, -x.im}; }
template <class R> DEVICE inline R np_absolute(complex<R> x) { return hypot(x.re, x.im); }
template <class R> DEVICE inline bool np_isnan(complex<R> x) { return x.re != x.re || x.im != x.im; }
template <class R> DEVICE inline complex<R> np_exp(complex<R> x) {
  const R scale = exp(x.re);
  return {scale * cos(x.im), scale * sin(x.im)};
}
template <class R> DEVICE inline complex<R> np_log(complex<R> x) {
  return {log(hypot(x.re, x.im)), atan2(x.im, x.re)};
}
template <class R> DEVICE inline complex<R> np_sqrt(complex<R> x) {
  const R radius = hypot(x.re, x.im);
  return {sqrt((radius + x.re) / R(2)), copysign(sqrt((radius - x.re) / R(2)), x.im)};
}
template <class T> DEVICE inline T power_of(T x, T y) { return pow(x, y); }
template <class R> DEVICE inline complex<R> power_of(complex<R> x, complex<R> y) {
  return x == complex<R>(0) ? complex<R>(y == complex<R>(0)) : np_exp(y * np_log(x));
}

template <class T, class U> DEVICE inline T cast(U x) { return convert<T>::from(x); }

// Integers wrap: signed overflow is undefined in C++, so sums go through unsigned.
template <class T> DEVICE inline T np_add(T x, T y) {
  if constexpr (is_integer<T>::value) return T((unsigned long long)x + (unsigned long long)y);
  else return x + y;
}
template <class T> DEVICE inline T np_subtract(T x, T y) {
  if constexpr (is_integer<T>::value) return T((unsigned long long)x - (unsigned long long)y);
  else return x - y;
}
template <class T> DEVICE inline T np_multiply(T x, T y) {
  if constexpr (is_integer<T>::value) return T((unsigned long long)x * (unsigned long long)y);
  else return x * y;
}
DEVICE inline bool np_add(bool x, bool y) { return x || y; }
DEVICE inline bool np_multiply(bool x, bool y) { return x && y; }
template <class T> DEVICE inline T np_negative(T x) { return np_subtract(T(0), x); }
DEVICE inline float np_negative(float x) { return -x; }
DEVICE inline double np_negative(double x) { return -x; }
template <class T> DEVICE inline complex<T> np_negative(complex<T> x) { return {-x.re, -x.im}; }
template <class T> DEVICE inline T np_positive(T x) { return x; }
template <class T> DEVICE inline T np_divide(T x, T y) { return x / y; }
template <class T> DEVICE inline T np_square(T x) { return np_multiply(x, x); }
template <class T> DEVICE inline T np_reciprocal(T x) { return T(1) / x; }
template <class T> DEVICE inline T np_conjugate(T x) { return conjugate_of(x); }

// nan wins, as in np.maximum; CUDA's fmax ignores it.
template <class T> DEVICE inline T np_maximum(T x, T y) { return x >= y || x != x ? x : y; }
template <class T> DEVICE inline T np_minimum(T x, T y) { return x <= y || x != x ? x : y; }
template <class T> DEVICE inline T np_fmax(T x, T y) { return x >= y || y != y ? x : y; }
template <class T> DEVICE inline T np_fmin(T x, T y) { return x <= y || y != y ? x : y; }

DEVICE inline float np_fmax(float x, float y) { return fmax(x, y); }
DEVICE inline float np_fmin(float x, float y) { return fmin(x, y); }

template <class T> DEVICE inline bool np_less(T x, T y) { return x < y; }
template <class T> DEVICE inline bool np_less_equal(T x, T y) { return x <= y; }
template <class T> DEVICE inline bool np_greater(T x, T y) { return x > y; }
template <class T> DEVICE inline bool np_greater_equal(T x, T y) { return x >= y; }
template <class T> DEVICE inline bool np_equal(T x, T y) { return x == y; }
template <class T> DEVICE inline bool np_not_equal(T x, T y) { return x != y; }
template <class T> DEVICE inline bool np_logical_and(T x, T y) { return bool(x) && bool(y); }
template <class T> DEVICE inline bool np_logical_or(T x, T y) { return bool(x) || bool(y); }
template <class T> DEVICE inline bool np_logical_xor(T x, T y) { return bool(x) != bool(y); }
template <class T> DEVICE inline bool np_logical_not(T x) { return !bool(x); }
template <class T> DEVICE inline T np_bitwise_and(T x, T y) { return T(x & y); }
template <class T> DEVICE inline T np_bitwise_or(T x, T y) { return T(x | y); }
template <class T> DEVICE inline T np_bitwise_xor(T x, T y) { return T(x ^ y); }
template <class T> DEVICE inline T np_invert(T x) { return T(~x); }
DEVICE inline bool np_invert(bool x) { return !x; }
template <class T> DEVICE inline bool out_of_width(T y) { return y < T(0) || y >= T(8 * sizeof(T)); }
template <class T> DEVICE inline T np_left_shift(T x, T y) {
  return out_of_width(y) ? T(0) : T((unsigned long long)x << y);
}
template <class T> DEVICE inline T np_right_shift(T x, T y) {
  return out_of_width(y) ? T(x < T(0) ? -1 : 0) : T(x >> y);
}

// Rounds towards minus infinity; division of an integer by zero gives 0, as in NumPy.
template <class T> DEVICE inline T np_floor_divide(T x, T y) {
  if constexpr (is_integer<T>::value) {
    if (y == T(0)) return T(0);
    if (T(-1) < T(0) && y == T(-1)) return np_negative(x);
    const T quotient = T(x / y);
    return T(quotient - T((x % y != 0) && ((x < T(0)) != (y < T(0)))));
  } else {
    return floor(x / y);
  }
}
template <class T> DEVICE inline T np_remainder(T x, T y) {
  if constexpr (is_integer<T>::value) {
    if (y == T(0) || (T(-1) < T(0) && y == T(-1))) return T(0);
    const T remainder = T(x % y);
    return T(remainder != 0 && ((remainder < T(0)) != (y < T(0))) ? remainder + y : remainder);
  } else {
    const T remainder = fmod(x, y);
    return remainder != T(0) && ((remainder < T(0)) != (y < T(0))) ? remainder + y : remainder;
  }
}
template <class T> DEVICE inline T np_fmod(T x, T y) {
  if constexpr (is_integer<T>::value) return np_equal(y, T(0)) ? T(0) : T(x % y);
  else return fmod(x, y);
}

#define MGREC_REAL_FUNCTION(name, spelled) \
  DEVICE inline float np_##name(float x) { return spelled(x); } \
  DEVICE inline double np_##name(double x) { return spelled(x); }
MGREC_REAL_FUNCTION(sqrt, sqrt)
MGREC_REAL_FUNCTION(cbrt, cbrt)
MGREC_REAL_FUNCTION(exp, exp)
MGREC_REAL_FUNCTION(exp2, exp2)
MGREC_REAL_FUNCTION(expm1, expm1)
MGREC_REAL_FUNCTION(log, log)
MGREC_REAL_FUNCTION(log2, log2)
MGREC_REAL_FUNCTION(log10, log10)
MGREC_REAL_FUNCTION(log1p, log1p)
MGREC_REAL_FUNCTION(sin, sin)
MGREC_REAL_FUNCTION(cos, cos)
MGREC_REAL_FUNCTION(tan, tan)
MGREC_REAL_FUNCTION(arcsin, asin)
MGREC_REAL_FUNCTION(arccos, acos)
MGREC_REAL_FUNCTION(arctan, atan)
MGREC_REAL_FUNCTION(sinh, sinh)
MGREC_REAL_FUNCTION(cosh, cosh)
MGREC_REAL_FUNCTION(tanh, tanh)
MGREC_REAL_FUNCTION(arcsinh, asinh)
MGREC_REAL_FUNCTION(arccosh, acosh)
MGREC_REAL_FUNCTION(arctanh, atanh)
MGREC_REAL_FUNCTION(floor, floor)
MGREC_REAL_FUNCTION(ceil, ceil)
MGREC_REAL_FUNCTION(trunc, trunc)
MGREC_REAL_FUNCTION(rint, rint)
MGREC_REAL_FUNCTION(fabs, fabs)
#undef MGREC_REAL_FUNCTION

template <class T> DEVICE inline T np_absolute(T x) { return x < T(0) ? np_negative(x) : x; }
DEVICE inline float np_absolute(float x) { return fabs(x); }
DEVICE inline double np_absolute(double x) { return fabs(x); }
template <class T> DEVICE inline T np_arctan2(T x, T y) { return atan2(x, y); }
template <class T> DEVICE inline T np_hypot(T x, T y) { return hypot(x, y); }
template <class T> DEVICE inline T np_deg2rad(T x) { return x * T(0.017453292519943295); }
template <class T> DEVICE inline T np_rad2deg(T x) { return x * T(57.29577951308232); }
template <class T> DEVICE inline bool np_isnan(T x) { return x != x; }
template <class T> DEVICE inline bool np_isinf(T x) { return np_absolute(x) == infinity<T>(); }
template <class T> DEVICE inline bool np_isfinite(T x) { return np_absolute(x) < infinity<T>(); }
template <class T> DEVICE inline T np_copysign(T x, T y) { return copysign(x, y); }
template <class T> DEVICE inline bool np_signbit(T x) { return copysign(T(1), x) < T(0); }
template <class T> DEVICE inline T np_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }

// Powers of two by their bits, as defined in core/algebra/exact.py; negated_if(x, parity) is -x if
// `parity` is odd.
union Bits32 { float number; int bits; };
union Bits64 { double number; long long bits; };
DEVICE inline int bits_of(float x) { Bits32 u; u.number = x; return u.bits; }
DEVICE inline float number_of(int bits, float) { Bits32 u; u.bits = bits; return u.number; }
#ifdef __CUDA_ARCH__
DEVICE inline int top_bits_of(double x) { return __double2hiint(x); }
DEVICE inline int low_bits_of(double x) { return __double2loint(x); }
DEVICE inline double number_of(int top, double) { return __hiloint2double(top, 0); }
DEVICE inline double negated_if(double x, int parity) {
  return __hiloint2double(__double2hiint(x) ^ int(unsigned(parity) << 31), __double2loint(x));
}
#else
DEVICE inline int top_bits_of(double x) { Bits64 u; u.number = x; return int(u.bits >> 32); }
DEVICE inline int low_bits_of(double x) { Bits64 u; u.number = x; return int(u.bits); }
DEVICE inline double number_of(int top, double) {
  Bits64 u;
  u.bits = (long long)(unsigned long long)(unsigned)top << 32;
  return u.number;
}
DEVICE inline double negated_if(double x, int parity) { return parity & 1 ? -x : x; }
#endif
// 2^e for |e| <= 126 (1022).
DEVICE inline float power_of_two(int e, float) { return number_of((e + 127) << 23, 0.0f); }
DEVICE inline double power_of_two(int e, double) { return number_of((e + 1023) << 20, 0.0); }
#ifdef __CUDA_ARCH__
// Three exact factors, computed once for all numbers with the same exponent: CUDA's ldexp takes
// about 20 instructions for each number.
template <class T, class I> DEVICE inline T np_ldexp(T x, I exponent) {
  const int limit = sizeof(T) == 4 ? 126 : 1022, e = int(exponent);
  const int first = max(-limit, min(limit, e));
  const int second = max(-limit, min(limit, e - first));
  const int third = max(-limit, min(limit, e - first - second));
  return x * power_of_two(first, T()) * power_of_two(second, T()) * power_of_two(third, T());
}
#else
template <class T, class I> DEVICE inline T np_ldexp(T x, I exponent) {
  return ldexp(x, int(exponent));
}
#endif
DEVICE inline float inverse_power(float x) {
  const int bits = 0x7f000000 - (bits_of(x) & 0x7f800000);
  return number_of(bits < 0x00800000 ? 0x00800000 : bits, 0.0f);
}
DEVICE inline double inverse_power(double x) {
  const int bits = 0x7fe00000 - (top_bits_of(x) & 0x7ff00000);
  return number_of(bits < 0x00100000 ? 0x00100000 : bits, 0.0);
}
DEVICE inline float exponent_gap(float x, float y) {
  return float(bits_of(x) - bits_of(y)) * 0x1p-23f;
}
DEVICE inline double exponent_gap(double x, double y) {
  return double(top_bits_of(x) - top_bits_of(y)) * 0x1p-20;
}
// The sum's last bits are k + 127 (1023): shifted, they are the exponent.
DEVICE inline float power_of_two(float k) {
  return number_of(int(unsigned(bits_of(k + (0x1.8p23f + 127))) << 23), 0.0f);
}
DEVICE inline double power_of_two(double k) {
  return number_of(int(unsigned(low_bits_of(k + (0x1.8p52 + 1023))) << 20), 0.0);
}

// Division without a branch; sets `needs_slow_path` if a number is near the ends of the range.
//
// CUDA's division branches on its operands: other work of the thread cannot hide its latency. In
// range, the same Newton steps give the same, correctly rounded quotient.

#ifdef __CUDA_ARCH__
DEVICE inline float rough_reciprocal(float y) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
  return fmaf(fmaf(-y, r, 1.0f), r, r);
}
DEVICE inline double rough_reciprocal(double y) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(y));
  const double e = fma(-y, r, 1.0);
  r = fma(fma(e, e, e), r, r);
  return fma(fma(-y, r, 1.0), r, r);
}
#else
template <class T> DEVICE inline T rough_reciprocal(T y) { return T(1) / y; }
#endif
DEVICE inline bool in_mid_range(float x) { return fabs(x) > 0x1p-50f && fabs(x) < 0x1p50f; }
DEVICE inline bool in_mid_range(double x) { return fabs(x) > 0x1p-480 && fabs(x) < 0x1p480; }

DEVICE inline float quick_divide(bool& needs_slow_path, float x, float y) {
  const float r = rough_reciprocal(y), q = x * r, p = fmaf(fmaf(-y, q, x), r, q);
  const float quotient = fmaf(fmaf(-y, p, x), r, p);
  needs_slow_path = needs_slow_path | !(in_mid_range(y) & ((x == 0) | in_mid_range(quotient)));
  return quotient;
}
DEVICE inline double quick_divide(bool& needs_slow_path, double x, double y) {
  const double r = rough_reciprocal(y), q = x * r, quotient = fma(fma(-y, q, x), r, q);
  needs_slow_path = needs_slow_path | !(in_mid_range(y) & ((x == 0) | in_mid_range(quotient)));
  return quotient;
}
template <class T> DEVICE inline T quick_divide(bool&, T x, T y) { return np_divide(x, y); }
// Sines and cosines of doubles with a relative error of 2^-30, for results that are floats.
//
// CUDA's functions take 50 double operations, read a table and branch: other work of the thread
// cannot hide their latency. The argument is reduced exactly here as well (Cody and Waite, 1980), but
// by half turns, so that one polynomial without a selection is enough. Quarter turns with the last
// terms as floats took 3 more conversions, each as long as 4 double operations:
// 0.5 + 0.4·sin(0.001·i) then ran at 0.56 of the roofline, not at 0.64.

// Returns sin(x) if `quarters` is 0, and cos(x) if it is 1. Sets `needs_slow_path` if the argument
// is too large for this reduction, or nan.
DEVICE inline double quick_wave(bool& needs_slow_path, double x, int quarters) {
  needs_slow_path = needs_slow_path | ((top_bits_of(x) & 0x7fffffff) >= 0x41d00000);  // 2^30
  double shifted = fma(x, 0x1.45f306dc9c883p-2, 0x1.8p52), turns = shifted - 0x1.8p52;
  if (quarters) {  // zeros lie between whole half turns
    shifted = fma(x, 0x1.45f306dc9c883p-2, -0.5) + 0x1.8p52;
    turns = shifted - 0x1.8p52 + 0.5;
  }
  double r = fma(turns, -0x1.921fb54442d18p+1, x);
  r = fma(turns, -0x1.1a62633145c07p-53, r);
  r = fma(turns, 0x1.f1976b7ed8fbcp-109, r);
  // sin r = r·(1 - q/6 + q²/120 - ...), q = r², |r| <= π/2: the minimax polynomial of degree 5 in q
  // has an error of 2^-35.
  const double q = r * r;
  double series = fma(-0x1.9a0e18fe79cd0p-26, q, 0x1.716ba4fc49a5fp-19);
  series = fma(series, q, -0x1.a017a8fe0379dp-13);
  series = fma(series, q, 0x1.11110b74ad719p-7);
  series = fma(series, q, -0x1.55555541759e3p-3);
  series = fma(series, q, 0x1.ffffffffd17d0p-1);
  return negated_if(r * series, low_bits_of(shifted) + quarters);
}
// An index of fewer than 51 bits by an integer addition and a double one: CUDA's conversion takes as
// long as four double operations or more.
DEVICE inline double quick_double(long long index) {
  Bits64 both;
  both.bits = index + 0x4338000000000000ll;  // the bits of 2^52 + 2^51
  return both.number - 0x1.8p52;
}
DEVICE inline double quick_sin(bool& needs_slow_path, double x) {
  return quick_wave(needs_slow_path, x, 0);
}
DEVICE inline double quick_cos(bool& needs_slow_path, double x) {
  return quick_wave(needs_slow_path, x, 1);
}
// CUDA's functions of floats are short.
DEVICE inline float quick_sin(bool&, float x) { return sin(x); }
DEVICE inline float quick_cos(bool&, float x) { return cos(x); }

template <class T> DEVICE inline T frexp_mantissa(T x) { int e; return frexp(x, &e); }
template <class T> DEVICE inline int frexp_exponent(T x) { int e = 0; frexp(x, &e); return e; }
template <class T> DEVICE inline T modf_whole(T x) { return trunc(x); }
template <class T> DEVICE inline T modf_fraction(T x) {
  return copysign(np_isinf(x) ? T(0) : x - trunc(x), x);
}

template <class T> DEVICE inline T np_power(T x, T y) {
  if constexpr (is_integer<T>::value) {
    T result = T(1);
    for (; y > T(0); y = T(y >> 1), x = np_multiply(x, x))
      if (y & T(1)) result = np_multiply(result, x);
    return result;
  } else {
    return power_of(x, y);
  }
}

// float16 and bfloat16, in which arrays are stored. Numbers are computed in float32, and rounded once.

struct half {
  unsigned short bits;
  half() = default;
  DEVICE half(float number);
  DEVICE operator float() const;
};

struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  DEVICE bfloat16(float number);
  DEVICE operator float() const { return number_of(int(bits) << 16, 0.0f); }
};

#ifdef __CUDA_ARCH__
DEVICE inline half::operator float() const {
  float number;
  asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(number) : "h"(bits));
  return number;
}
DEVICE inline half::half(float number) {
  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(bits) : "f"(number));
}
#else
// The exponent's bias is larger by 112 in float32, where subnormal float16 numbers are normal.
DEVICE inline half::operator float() const {
  const int exponent = bits >> 10 & 31, rest = bits & 1023, sign = (bits & 0x8000) << 16;
  if (exponent == 31) return number_of(sign | 0x7f800000 | rest << 13, 0.0f);
  if (exponent) return number_of(sign | (exponent + 112) << 23 | rest << 13, 0.0f);
  return (sign ? -1.0f : 1.0f) * float(rest) * power_of_two(-24, 0.0f);
}
DEVICE inline half::half(float number) {
  const int size = bits_of(number) & 0x7fffffff, needs_slow_path = size >> 13 & 1;
  int rounded = (size + 0xfff + needs_slow_path >> 13) - (112 << 10);
  if (size < 113 << 23) rounded = int(rint(fabs(number) * power_of_two(24, 0.0f)));
  if (rounded > 31 << 10) rounded = 31 << 10;
  if (number != number) rounded = 0x7e00;
  bits = rounded | (bits_of(number) >> 16 & 0x8000);
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
DEVICE inline bfloat16::bfloat16(float number) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(number));
}
#else
DEVICE inline bfloat16::bfloat16(float number) {
  const unsigned whole = bits_of(number);
  bits = number != number ? 0x7fc0 : whole + 0x7fff + (whole >> 16 & 1) >> 16;
}
#endif

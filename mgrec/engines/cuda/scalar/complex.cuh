// Complex numbers and the conversions between scalar types.
#pragma once

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

// Division without a branch where nothing is near the ends of the range; elsewhere `odd` is set.
//
// CUDA's division tests its operands and jumps: no other work of a thread can then hide its
// latency. In range the same steps of Newton give the same, correctly rounded quotient.
#pragma once

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

DEVICE inline float quick_divide(bool& odd, float x, float y) {
  const float r = rough_reciprocal(y), q = x * r, p = fmaf(fmaf(-y, q, x), r, q);
  const float quotient = fmaf(fmaf(-y, p, x), r, p);
  odd = odd | !(in_mid_range(y) & ((x == 0) | in_mid_range(quotient)));
  return quotient;
}
DEVICE inline double quick_divide(bool& odd, double x, double y) {
  const double r = rough_reciprocal(y), q = x * r, quotient = fma(fma(-y, q, x), r, q);
  odd = odd | !(in_mid_range(y) & ((x == 0) | in_mid_range(quotient)));
  return quotient;
}
template <class T> DEVICE inline T quick_divide(bool&, T x, T y) { return np_divide(x, y); }

// A filter of order ORDER whose coefficients vary in time: TAPS numbers of b and POLES of a in a step.
// S is the dtype of operands, and E that of outputs, or of their real and imaginary parts. Complex
// states are pairs of numbers, and the maps are those of N real numbers.
#pragma once
#include "scans/matrix/cuda/affine.cuh"

constexpr bool IS_COMPLEX = N == 2 * ORDER;
template <bool> struct computed { typedef double type; };
template <> struct computed<true> { typedef complex<double> type; };
typedef computed<IS_COMPLEX>::type Number;

DEVICE inline void read(const double* w, int k, double& z) { z = w[k]; }
DEVICE inline void read(const double* w, int k, complex<double>& z) {
  z.re = w[2 * k], z.im = w[2 * k + 1];
}
DEVICE inline void write(double* w, int k, double z) { w[k] = z; }
DEVICE inline void write(double* w, int k, complex<double> z) {
  w[2 * k] = z.re, w[2 * k + 1] = z.im;
}
DEVICE inline double part_of(double y, int) { return y; }
DEVICE inline double part_of(complex<double> y, int i) { return i ? y.im : y.re; }

struct Filter {
  static constexpr int WIDTH = N / ORDER;
  Strided<S> numerators, denominators, signal;

  struct Step {
    Number b[ORDER + 1], a[ORDER + 1], x, y;
    // y and the states; those of the transposed form in the order of SciPy's sums.
    DEVICE void advance(bool is_unit, double (&w)[N]) {
      Number z[ORDER];
#pragma unroll UNROLL
      for (int k = 0; k < ORDER; ++k) read(w, k, z[k]);
      if (IS_DIRECT) {
        Number latest = is_unit ? Number(0.0) : x;
#pragma unroll UNROLL
        for (int k = ORDER; k > 0; --k) latest = latest - a[k] * z[k - 1];
        y = b[0] * latest;
#pragma unroll UNROLL
        for (int k = 0; k < ORDER; ++k) {
          y = y + b[k + 1] * z[k];
          write(w, k, k > 0 ? z[k > 0 ? k - 1 : 0] : latest);
        }
        return;
      }
      y = is_unit ? z[0] : z[0] + b[0] * x;
#pragma unroll UNROLL
      for (int k = 0; k < ORDER; ++k) {
        Number sum = k + 1 < ORDER ? z[k + 1 < ORDER ? k + 1 : 0] : Number(0.0);
        if (!is_unit) sum = k + 1 < ORDER ? sum + b[k + 1] * x : b[k + 1] * x;
        write(w, k, sum - a[k + 1] * y);
      }
    }
    DEVICE double result(const double (&)[N], int i) const { return part_of(y, i); }
  };
  DEVICE Step step_of(const Range& r, long long step) const {
    const S* b = numerators.at(r.outer, step, r.inner);
    const S* a = denominators.at(r.outer, step, r.inner);
    const Number gain = convert<Number>::from(a[0]);
    Step now;
    now.x = convert<Number>::from(*signal.at(r.outer, step, r.inner));
#pragma unroll UNROLL
    for (int k = 0; k <= ORDER; ++k) {
      const Number tap = k < TAPS ? convert<Number>::from(b[k]) : Number(0.0);
      const Number pole = k < POLES ? convert<Number>::from(a[k]) : Number(0.0);
      now.b[k] = gain == Number(1.0) ? tap : tap / gain;
      now.a[k] = gain == Number(1.0) ? pole : pole / gain;
    }
    return now;
  }
};
typedef AffinePass<Filter> Pass;

// A filter of order N whose coefficients vary in time: TAPS numbers of b and POLES of a in a step. E is
// the dtype of outputs, S that of operands.
#pragma once
#include "scans/matrix/cuda/affine.cuh"

struct Filter {
  static constexpr int WIDTH = 1;
  Strided<S> numerators, denominators, signal;

  struct Step {
    double b[N + 1], a[N + 1], x, y;
    // y and the states, in the order of SciPy's sums.
    DEVICE void advance(bool is_unit, double (&w)[N]) {
      y = is_unit ? w[0] : w[0] + b[0] * x;
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        double sum = i + 1 < N ? w[i + 1 < N ? i + 1 : 0] : 0.0;
        if (!is_unit) sum = i + 1 < N ? sum + b[i + 1] * x : b[i + 1] * x;
        w[i] = sum - a[i + 1] * y;
      }
    }
    DEVICE double result(const double (&)[N], int) const { return y; }
  };
  DEVICE Step step_of(const Range& r, long long step) const {
    const S* b = numerators.at(r.outer, step, r.inner);
    const S* a = denominators.at(r.outer, step, r.inner);
    const double gain = a[0];
    Step now;
    now.x = *signal.at(r.outer, step, r.inner);
#pragma unroll UNROLL
    for (int i = 0; i <= N; ++i) {
      const double tap = i < TAPS ? double(b[i]) : 0.0, pole = i < POLES ? double(a[i]) : 0.0;
      now.b[i] = gain == 1.0 ? tap : tap / gain;
      now.a[i] = gain == 1.0 ? pole : pole / gain;
    }
    return now;
  }
};
typedef AffinePass<Filter> Pass;

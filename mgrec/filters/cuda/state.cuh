// States of a cascade, and one sample through its sections.
#pragma once

constexpr unsigned ALL = 0xffffffffu;
constexpr int STATES = ORDER * SECTIONS, HELD = STATES > 0 ? STATES : 1;
constexpr int UNROLLED = STATES <= 64 ? STATES + 1 : 4;

struct State { S v[HELD]; };

// b_0, b_1, … and −a_0, −a_1, … of each section, with a_0 = 1.
struct Coefficients { S b[SECTIONS][ORDER + 1], a[SECTIONS][ORDER + 1]; };

DEVICE inline double multiply_add(double x, double y, double z) { return fma(x, y, z); }
template <class R> DEVICE inline complex<R> multiply_add(complex<R> x, complex<R> y, complex<R> z) {
  return {fma(-x.im, y.im, fma(x.re, y.re, z.re)), fma(x.re, y.im, fma(x.im, y.re, z.im))};
}

// One sample through all sections, direct form II transposed.
DEVICE inline S advance(const Coefficients& with, State& state, S value) {
#pragma unroll(UNROLLED)
  for (int s = 0; s < SECTIONS; ++s) {
    const S x = value;
    if (ORDER == 0) {
      value = with.b[s][0] * x;
      continue;
    }
    value = multiply_add(with.b[s][0], x, state.v[s * ORDER]);
#pragma unroll(UNROLLED)
    for (int i = 0; i < ORDER; ++i) {
      const int at = s * ORDER + i;
      const S fed = i + 1 < ORDER ? multiply_add(with.b[s][i + 1], x, state.v[i + 1 < ORDER ? at + 1 : at])
                                  : with.b[s][i + 1] * x;
      state.v[at] = FEEDBACK ? multiply_add(with.a[s][i + 1], value, fed) : fed;
    }
  }
  return value;
}

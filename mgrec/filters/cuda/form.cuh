// The states of a cascade in the registers of a lane: those of the transposed form, or the last
// inputs of each section. And the step of one sample through all sections.
#pragma once
#include "engines/cuda/lanes.cuh"

constexpr int STATES = ORDER * SECTIONS, STATE_SIZE = STATES > 0 ? STATES : 1;
constexpr int UNROLLED = STATES <= 64 ? STATES + 1 : 4;

struct State { S v[STATE_SIZE]; };

// b_0, b_1, … and −a_0, −a_1, … of each section, with a_0 = 1.
struct Coefficients { S b[SECTIONS][ORDER + 1], a[SECTIONS][ORDER + 1]; };
// How kernels take them: by value, or by address if they exceed the limit of arguments.
template <bool IS_VALUE> struct Argument {
  Coefficients value;
  DEVICE const Coefficients& get() const { return value; }
};
template <> struct Argument<false> {
  const Coefficients* address;
  DEVICE const Coefficients& get() const { return *address; }
};

DEVICE inline double multiply_add(double x, double y, double z) { return fma(x, y, z); }
template <class R> DEVICE inline complex<R> multiply_add(complex<R> x, complex<R> y, complex<R> z) {
  return {fma(-x.im, y.im, fma(x.re, y.re, z.re)), fma(x.re, y.im, fma(x.im, y.re, z.im))};
}

// Never contracted to a multiply-add.
#ifdef __CUDA_ARCH__
DEVICE inline float product(float x, float y) { return __fmul_rn(x, y); }
DEVICE inline double product(double x, double y) { return __dmul_rn(x, y); }
DEVICE inline float sum(float x, float y) { return __fadd_rn(x, y); }
DEVICE inline double sum(double x, double y) { return __dadd_rn(x, y); }
#else
DEVICE inline float product(float x, float y) { return x * y; }
DEVICE inline double product(double x, double y) { return x * y; }
DEVICE inline float sum(float x, float y) { return x + y; }
DEVICE inline double sum(double x, double y) { return x + y; }
#endif

// Advance all sections by one sample, in direct form II transposed.
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
      const int index = s * ORDER + i;
      const S fed = i + 1 < ORDER ? multiply_add(with.b[s][i + 1], x,
                                                 state.v[i + 1 < ORDER ? index + 1 : index])
                                  : with.b[s][i + 1] * x;
      state.v[index] = FEEDBACK ? multiply_add(with.a[s][i + 1], value, fed) : fed;
    }
  }
  return value;
}

template <bool IS_DIRECT> struct Form;

// Direct form II transposed, with 2·ORDER + 1 operations a section. States in memory have this form.
template <> struct Form<false> {
  State state;

  DEVICE void set_state(const Coefficients&, const State& carry_in) { state = carry_in; }
  DEVICE State states(const Coefficients&) const { return state; }
  DEVICE S advance(const Coefficients& with, S x) { return ::advance(with, state, x); }
  DEVICE S advance(const Coefficients& with, S x, State&) { return ::advance(with, state, x); }
  static DEVICE S scaled(const Coefficients&, int, S carry_in) { return carry_in; }
};

// Direct form I. Section s has the gain 1, and its input is multiplied by b_s·b_{s+1}·…. The outputs
// of a section are the inputs of the next one, and b_0 takes no product. A sample of 8 sections of
// order 2 takes 33 operations of float64, which an H100's scheduler issues every other cycle, and 41
// instructions. The transposed form takes 40 and 64.
//
// The coefficients of section s are b_s·b_{s+1}·…, b_1 / b_0, … and 1 / (b_{s+1}·b_{s+2}·…), −a_1, ….
template <> struct Form<true> {
  static constexpr int HISTORY = ORDER > 0 ? ORDER : 1;
  S past[SECTIONS + 1][HISTORY];  // inputs of each section and the outputs, the latest first

  // The carry-in is added to the first ORDER samples instead.
  DEVICE void set_state(const Coefficients&, const State&) { *this = {}; }

  DEVICE S advance(const Coefficients& with, S x) {
    State none;
    return advance_by<false>(with, x, none);
  }
  // The same, plus the terms of the carry-in in the first samples.
  DEVICE S advance(const Coefficients& with, S x, State& added) {
    return advance_by<true>(with, x, added);
  }
  template <bool ADDS> DEVICE S advance_by(const Coefficients& with, S x, State& added) {
    S value = with.b[0][0] * x;
#pragma unroll
    for (int s = 0; s < SECTIONS; ++s) {
      S sum = value;
      if (ADDS) {
        sum = sum + added.v[s * ORDER];
#pragma unroll
        for (int i = 0; i < ORDER; ++i)
          added.v[s * ORDER + i] = i + 1 < ORDER ? added.v[s * ORDER + (i + 1) % HISTORY] : S();
      }
#pragma unroll
      for (int i = ORDER; i-- > 0;) sum = multiply_add(with.b[s][i + 1], past[s][i], sum);
      // The latest output comes last, so that a sample waits for one operation of the previous one.
#pragma unroll
      for (int i = ORDER; i-- > 0;) sum = multiply_add(with.a[s][i + 1], past[s + 1][i], sum);
      push(past[s], value);
      value = sum;
    }
    push(past[SECTIONS], value);
    return value;
  }
  static DEVICE void push(S (&values)[HISTORY], S latest) {
#pragma unroll
    for (int i = HISTORY - 1; i > 0; --i) values[i] = values[i - 1];
    values[0] = latest;
  }

  // z_i = b_{i+1}·x_0 + b_{i+2}·x_1 + … − a_{i+1}·y_0 − …, where x_0 is the latest input.
  DEVICE State states(const Coefficients& with) const {
    State state;
#pragma unroll
    for (int s = 0; s < SECTIONS; ++s)
#pragma unroll
      for (int i = 0; i < ORDER; ++i) {
        S sum = S();
#pragma unroll
        for (int k = ORDER - 1; k >= i; --k) {
          sum = multiply_add(with.b[s][k + 1], past[s][k - i], sum);
          sum = multiply_add(with.a[s][k + 1], past[s + 1][k - i], sum);
        }
        state.v[s * ORDER + i] = with.a[s][0] * sum;
      }
    return state;
  }
  // Return state `number` of the cascade in the scale of its section's outputs.
  static DEVICE S scaled(const Coefficients& with, int number, S carry_in) {
    const int next = number / HISTORY + 1;
    return next < SECTIONS ? with.b[next < SECTIONS ? next : 0][0] * carry_in : carry_in;
  }
};

// How a lane keeps what a filter remembers: as the states of the transposed form, or as the last
// inputs of each section.
#pragma once
#include "filters/cuda/state.cuh"

template <bool IS_DIRECT> struct Form;

// Direct form II transposed, 2·ORDER + 1 operations a section: the states that are kept in memory.
template <> struct Form<false> {
  State state;

  DEVICE void enter(const Coefficients&, const State& entry) { state = entry; }
  DEVICE State states(const Coefficients&) const { return state; }
  DEVICE S advance(const Coefficients& with, S x) { return ::advance(with, state, x); }
  DEVICE S advance(const Coefficients& with, S x, State&) { return ::advance(with, state, x); }
  static DEVICE S scaled(const Coefficients&, int, S entry) { return entry; }
};

// Direct form I, where section s has the gain 1 and takes its input times b_s·b_{s+1}·…: the
// outputs of a section are the inputs of the next, and no product is left for b_0. Of 8 sections
// of order 2 a sample takes 33 operations of float64, which an H100's scheduler begins every other
// cycle, and 41 instructions, where the transposed form takes 40 and 64.
//
// Coefficients are b_s·b_{s+1}·…, b_1 / b_0, … and 1 / (b_{s+1}·b_{s+2}·…), −a_1, … of section s.
template <> struct Form<true> {
  static constexpr int KEPT = ORDER > 0 ? ORDER : 1;
  S past[SECTIONS + 1][KEPT];  // inputs of each section and the outputs, the latest first

  // Other states are added to the first ORDER samples.
  DEVICE void enter(const Coefficients&, const State&) { *this = {}; }

  DEVICE S advance(const Coefficients& with, S x) {
    State none;
    return advance_by<false>(with, x, none);
  }
  // And what the states that the segment begins with add to its first samples.
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
          added.v[s * ORDER + i] = i + 1 < ORDER ? added.v[s * ORDER + (i + 1) % KEPT] : S();
      }
#pragma unroll
      for (int i = ORDER; i-- > 0;) sum = multiply_add(with.b[s][i + 1], past[s][i], sum);
      // The latest output comes last: a sample waits for one operation of the one before it.
#pragma unroll
      for (int i = ORDER; i-- > 0;) sum = multiply_add(with.a[s][i + 1], past[s + 1][i], sum);
      push(past[s], value);
      value = sum;
    }
    push(past[SECTIONS], value);
    return value;
  }
  static DEVICE void push(S (&values)[KEPT], S latest) {
#pragma unroll
    for (int i = KEPT - 1; i > 0; --i) values[i] = values[i - 1];
    values[0] = latest;
  }

  // z_i = b_{i+1}·x_0 + b_{i+2}·x_1 + … − a_{i+1}·y_0 − …, x_0 the latest input.
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
  // State `number` of the cascade in the units of its section's outputs.
  static DEVICE S scaled(const Coefficients& with, int number, S entry) {
    const int next = number / KEPT + 1;
    return next < SECTIONS ? with.b[next < SECTIONS ? next : 0][0] * entry : entry;
  }
};

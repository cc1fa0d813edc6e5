// A lane filters one segment of one row, sample by sample, with states in float64.
//
// The states before a segment are propagated. If they decay fast enough, the lane computes them
// from the samples before the segment and states of 0 instead (warm-up). repair.cuh compares them
// with the states after the previous segment.
//
// Samples X are cast in registers to the outputs' E, as NumPy casts them, and outputs to the results'
// Y. For int16 samples and float64 outputs that moves 10 bytes a sample; a separate cast moves 26.
// BACKWARD kernels filter from the last sample of a row to its first.
#pragma once
#include "filters/cuda/form.cuh"
#include "engines/cuda/memory/copies.cuh"

// Return the upper bits of an absolute value, which have the same order; nan is above inf.
DEVICE inline int magnitude(float y) { return bits_of(y) & 0x7fffffff; }
DEVICE inline int magnitude(double y) { return top_bits_of(y) & 0x7fffffff; }
template <class R> DEVICE inline int magnitude(complex<R> y) {
  return max(magnitude(y.re), magnitude(y.im));
}

struct Shape {
  long long outer, steps, inner;     // of the array
  long long segments, length, warm;  // segments of a row, their steps, steps of a warm-up
  DEVICE long long lanes() const { return outer * segments * inner; }
  DEVICE long long stride() const { return BACKWARD ? -inner : inner; }
};

// Hide from the compiler where a number comes from, in direct form. Otherwise it keeps the addresses
// of all states in registers: 242 registers for 8 sections instead of 134.
DEVICE inline long long opaque(long long number) {
  if (DIRECT) asm volatile("" : "+l"(number));
  return number;
}

struct Arrays {
  const X* x;
  Y* y;
  const S* carry_in;         // [state][row]; null for 0
  S *assumed, *carry_outs;   // [state][lane]
  unsigned char* tops;   // [lane] whether outputs came near overflow
  int* failures;         // [row] number of segments from the first one to repair
  unsigned char* marks;  // [lane] whether to repair the segment, if rows have several
};

// One segment of one row. Steps are relative to its first step; [low, high) exist.
struct Lane {
  long long id, row, segment, first, low, high;
  DEVICE Lane(long long number, long long column, const Shape& shape) {
    const long long o = number / shape.segments;
    const bool exists = o < shape.outer && column < shape.inner;
    segment = number - o * shape.segments;
    id = number * shape.inner + column;
    row = o * shape.inner + column;
    const long long left = shape.steps - segment * shape.length;
    const long long step = BACKWARD ? left - 1 : shape.steps - left;
    first = (o * shape.steps + step) * shape.inner + column;
    high = !exists ? 0 : left < shape.length ? left : shape.length;
    low = exists && segment ? -shape.warm : 0;
  }
};

template <class Access> struct Walker {
  const Coefficients& with;
  const Arrays& arrays;
  const Shape& shape;
  Access& access;
  Form<DIRECT> form;
  int largest;

  DEVICE void start_segment(const Lane& lane) {
    largest = 0;
    if (lane.high == 0) return;
    const bool known = HAS_STATES && lane.segment;
    const long long lanes = opaque(shape.lanes()), rows = opaque(shape.outer * shape.inner);
    State state = form.states(with);
#pragma unroll(UNROLLED)
    for (int q = 0; q < STATES; ++q) {
      if (known) state.v[q] = arrays.assumed[q * lanes + lane.id];
      else if (lane.segment) arrays.assumed[q * lanes + lane.id] = state.v[q];
      else if (arrays.carry_in) state.v[q] = arrays.carry_in[q * rows + lane.row];
      else state.v[q] = S();
    }
    if (known || lane.segment == 0) form.set_state(with, state);
    if (lane.segment == 0) arrays.failures[lane.row] = 0;
  }

  DEVICE void end_segment(const Lane& lane) {
    const long long lanes = opaque(shape.lanes());
    const State state = form.states(with);
#pragma unroll(UNROLLED)
    for (int q = 0; q < STATES; ++q) arrays.carry_outs[q * lanes + lane.id] = state.v[q];
    arrays.tops[lane.id] = largest > TOP;
  }

  // Return whether the terms of the carry-in have to be added to the first samples.
  DEVICE bool adds_carry_in(const Lane& lane) const {
    return DIRECT && arrays.carry_in && lane.segment == 0 && lane.high > 0;
  }
  DEVICE State carry_in_of(const Lane& lane) const {
    State added = {};
    if (!adds_carry_in(lane)) return added;
    const long long rows = opaque(shape.outer * shape.inner);
#pragma unroll(UNROLLED)
    for (int q = 0; q < STATES; ++q)
      added.v[q] = Form<DIRECT>::scaled(with, q, arrays.carry_in[q * rows + lane.row]);
    return added;
  }

  DEVICE E output_of(S value) {
    const E y = cast<E>(value);
    largest = max(largest, magnitude(y));
    return y;
  }

  // Filter ITEMS samples, whose inputs start at `part` in their stage.
  DEVICE void walk(int stage, int part, long long step, const Lane& lane) {
    X next[GROUP];
    access.read(stage, part, next);
#pragma unroll 1
    for (int k = 0; k < ITEMS; k += GROUP) {
      X x[GROUP];
      E y[GROUP];
#pragma unroll
      for (int r = 0; r < GROUP; ++r) x[r] = next[r];
      if (k + GROUP < ITEMS) access.read(stage, part + k + GROUP, next);
#pragma unroll
      for (int r = 0; r < GROUP; ++r) y[r] = output_of(form.advance(with, cast<S>(cast<E>(x[r]))));
      if (WRITE && step >= 0 && step < lane.high) access.write(stage, step, k, y);
    }
  }

  // The same if the row ends inside these steps, or a carry-in is added to the first of them.
  DEVICE void walk_partly(int stage, int part, long long step, const Lane& lane) {
    State added = step == 0 ? carry_in_of(lane) : State{};
#pragma unroll 1
    for (int k = 0; k < ITEMS && step + k < lane.high; ++k) {
      const X x = access.read_one(stage, part + k);
      const E y = output_of(form.advance(with, cast<S>(cast<E>(x)), added));
      if (WRITE) access.write_one(stage, step, k, y);
    }
  }

  DEVICE void filter_segment(const Lane& lane) {
    form = {};
    largest = 0;
    const int first = -int(shape.warm / ITEMS), last = int((shape.length + ITEMS - 1) / ITEMS);
    for (int k = 0; k < STAGES; ++k) access.request(k, (first + k * BATCHES) * (long long)ITEMS);
    int stage = 0, part = 0;
#pragma unroll 1
    for (int p = first; p < last; ++p) {
      const long long step = p * (long long)ITEMS;
      if (p == 0) start_segment(lane);
      if (part == 0) access.wait(stage);
      __syncwarp();
      const bool ends = p >= 0 && step < lane.high && lane.high <= step + ITEMS;
      const bool is_part = (ends && lane.high < step + ITEMS) || (p == 0 && adds_carry_in(lane));
      if (__any_sync(ALL, is_part)) walk_partly(stage, part, step, lane);
      else walk(stage, part, step, lane);
      if (ends) end_segment(lane);
      __syncwarp();
      if (WRITE && p >= 0) access.flush(stage, step);
      if ((part += ITEMS) < BATCHES * ITEMS) continue;
      part = 0;
      access.request(stage, step + (STAGES * BATCHES - BATCHES + 1) * ITEMS);
      if (++stage == STAGES) stage = 0;
    }
  }
};

// Segments of many columns. Neighbouring lanes filter neighbouring columns. Each lane copies its
// own samples to shared memory. Asynchronous copies have 4 bytes or more: a lane loads narrower
// samples, and stores them when it requests the next ones, so that it does not wait for them.
#pragma once
#include "filters/cuda/lane.cuh"

static_assert(RUNS == 1, "a run is a stage");

struct Columns {
  X* memory;
  const X* x;
  Y* y;
  long long stride;
  const Lane& lane;
  X held[ITEMS];
  int waiting;  // the stage of the samples in `held`; -1 for none

  DEVICE X* at(int stage, int k) const { return memory + (stage * ITEMS + k) * 32 + threadIdx.x; }
  // Call load(k, address) for each existing sample. Most batches exist as a whole.
  template <class Load> DEVICE void visit(long long step, Load load) const {
    const X* const from = x + lane.first + step * stride;
    if (step >= lane.low && step + ITEMS <= lane.high) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) load(k, from + k * stride);
      return;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      if (step + k >= lane.low && step + k < lane.high) load(k, from + k * stride);
  }
  DEVICE void request(int stage, long long step) {
    if (sizeof(X) < 4) return request_narrow(stage, step);
    visit(step, [&](int k, const X* from) { copy_word(at(stage, k), from); });
    copies_commit();
  }
  DEVICE void request_narrow(int stage, long long step) {
#pragma unroll
    for (int k = 0; k < ITEMS && waiting >= 0; ++k) *at(waiting, k) = held[k];
    waiting = stage;
    visit(step, [&](int k, const X* from) { held[k] = *from; });
  }
  DEVICE void flush(int, long long) const {}
  DEVICE void read(int stage, int k, X (&v)[GROUP]) const {
#pragma unroll
    for (int r = 0; r < GROUP; ++r) v[r] = *at(stage, k + r);
  }
  DEVICE void write(int, long long step, int k, const E (&v)[GROUP]) const {
    Y* to = y + lane.first + (step + k) * stride;
#pragma unroll
    for (int r = 0; r < GROUP; ++r, to += stride) *to = cast<Y>(v[r]);
  }
  DEVICE X read_one(int stage, int k) const { return *at(stage, k); }
  DEVICE void write_one(int, long long step, int k, E value) const {
    y[lane.first + (step + k) * stride] = cast<Y>(value);
  }
};

DEVICE void filter_segments(const Arrays& arrays, const Coefficients& with, const Shape& shape) {
  __shared__ __align__(16) unsigned char memory[STAGES * ITEMS * 32 * sizeof(X)];
  const long long id = blockIdx.x * 32ll + threadIdx.x, number = id / shape.inner;
  const Lane lane(number, id - number * shape.inner, shape);
  Columns access = {reinterpret_cast<X*>(memory), arrays.x, arrays.y, shape.stride(), lane, {}, -1};
  Walker<Columns> walker = {with, arrays, shape, access};
  walker.run(lane);
}

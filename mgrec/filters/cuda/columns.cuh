// Segments of many columns. Neighbouring lanes filter neighbouring columns. Each lane copies its
// own samples to shared memory.
#pragma once
#include "filters/cuda/lane.cuh"

static_assert(RUNS == 1, "a run is a stage");

struct Columns {
  X* memory;
  const X* x;
  E* y;
  long long inner;
  const Lane& lane;

  DEVICE X* at(int stage, int k) const { return memory + (stage * ITEMS + k) * 32 + threadIdx.x; }
  DEVICE void request(int stage, long long step) const {
    const X* from = x + lane.first + step * inner;
    if (sizeof(X) < 4) return request_together(stage, step, from);
#pragma unroll 8
    for (int k = 0; k < ITEMS; ++k, from += inner)
      if (step + k >= lane.low && step + k < lane.high) copy_word(at(stage, k), from);
    copies_commit();
  }
  // Asynchronous copies have 4 bytes or more: wait once for all samples.
  DEVICE void request_together(int stage, long long step, const X* from) const {
    X held[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k, from += inner)
      if (step + k >= lane.low && step + k < lane.high) held[k] = *from;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) *at(stage, k) = held[k];
    copies_commit();
  }
  DEVICE void flush(int, long long) const {}
  DEVICE void read(int stage, int k, X (&v)[GROUP]) const {
#pragma unroll
    for (int r = 0; r < GROUP; ++r) v[r] = *at(stage, k + r);
  }
  DEVICE void write(int, long long step, int k, const E (&v)[GROUP]) const {
    E* to = y + lane.first + (step + k) * inner;
#pragma unroll
    for (int r = 0; r < GROUP; ++r, to += inner) *to = v[r];
  }
  DEVICE X read_one(int stage, int k) const { return *at(stage, k); }
  DEVICE void write_one(int, long long step, int k, E value) const {
    y[lane.first + (step + k) * inner] = value;
  }
};

DEVICE void filter_segments(const Arrays& arrays, const Coefficients& with, const Shape& shape) {
  __shared__ __align__(16) unsigned char memory[STAGES * ITEMS * 32 * sizeof(X)];
  const long long id = blockIdx.x * 32ll + threadIdx.x, number = id / shape.inner;
  const Lane lane(number, id - number * shape.inner, shape);
  Columns access = {reinterpret_cast<X*>(memory), arrays.x, arrays.y, shape.inner, lane};
  Walker<Columns> walker = {with, arrays, shape, access};
  walker.run(lane);
}

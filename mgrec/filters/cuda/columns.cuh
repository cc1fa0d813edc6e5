// Segments of many columns. Neighbouring lanes filter neighbouring columns. If the lanes of a warp
// filter one segment of 32 columns whose rows are aligned, they copy the samples together to shared
// memory, in words of 16 bytes. Otherwise each lane copies its own samples. Asynchronous copies have
// 4 bytes or more: a lane loads narrower samples, and stores them when it requests the next ones, so
// that it does not wait for them.
#pragma once
#include "filters/cuda/lane.cuh"

static_assert(BATCHES == 1, "a batch is a stage");
static_assert(!PIECES || !BACKWARD, "pieces are read from the first to the last");

// Consecutive steps of x: where step 0 would be in memory, and the step after the last.
struct Piece { const X* origin; long long stop; };
struct Pieces { long long count, unused; Piece pieces[1]; };

struct Columns {
  X* memory;
  const X* x;
  Y* y;
  long long stride;
  const Lane& lane;
  const Shape& shape;
  const Pieces* table;
  X loaded[ITEMS];
  int pending_stage;  // the stage of the samples in `loaded`; -1 for none
  long long end;  // the step of the lane at which the piece in `x` ends

  DEVICE X* address(int stage, int k) const {
    return memory + (stage * ITEMS + k) * 32 + threadIdx.x;
  }
  DEVICE bool is_whole(long long step) const {
    return step >= lane.low && step + ITEMS <= (PIECES && end < lane.high ? end : lane.high);
  }
  // Call load(k, address) for each existing sample. Most batches exist as a whole, in one piece.
  template <class Load> DEVICE void visit(long long step, Load load) {
    const long long from = lane.first + step * stride;
    if (is_whole(step)) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) load(k, x + from + k * stride);
      return;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if (step + k < lane.low || step + k >= lane.high) continue;
      if (PIECES && step + k >= end) find_piece(step + k);
      load(k, x + from + k * stride);
    }
  }
  DEVICE void find_piece(long long step) {
    const long long first = lane.segment * shape.length;
    long long left = 0, right = table->count - 1;
    while (left < right) {
      const long long middle = (left + right) / 2;
      if (table->pieces[middle].stop > first + step) right = middle;
      else left = middle + 1;
    }
    x = table->pieces[left].origin;
    end = table->pieces[left].stop - first;
  }
  DEVICE void request(int stage, long long step) {
    if (PIECES && step >= end) find_piece(step);
    if (ALIGNED && is_whole(step)) request_words(stage, step);
    else if (ALIGNED) request_some(stage, step);
    else if (sizeof(X) < 4) return request_narrow(stage, step);
    else visit(step, [&](int k, const X* from) { copy_word(address(stage, k), from); });
    copies_commit();
  }
  DEVICE void request_words(int stage, long long step) const {
    constexpr int LENGTH = 16 / sizeof(X), WORDS = 32 / LENGTH, AT_ONCE = 32 / WORDS;  // rows
    static_assert(ITEMS % AT_ONCE == 0, "whole copies of the warp");
    const int row = threadIdx.x / WORDS, column = threadIdx.x % WORDS * LENGTH;
    const X* const from = x + lane.first - int(threadIdx.x) + column + (step + row) * stride;
    X* const to = memory + (stage * ITEMS + row) * 32 + column;
#pragma unroll
    for (int k = 0; k < ITEMS; k += AT_ONCE)
      copy_word(reinterpret_cast<uint4*>(to + k * 32), reinterpret_cast<const uint4*>(from + k * stride));
  }
  // Copy samples next to the ends of a segment or of a piece.
  DEVICE void request_some(int stage, long long step) {
#pragma unroll 1
    for (int k = 0; k < ITEMS; ++k) {
      if (step + k < lane.low || step + k >= lane.high) continue;
      if (PIECES && step + k >= end) find_piece(step + k);
      *address(stage, k) = x[lane.first + (step + k) * stride];
    }
  }
  DEVICE void request_narrow(int stage, long long step) {
#pragma unroll
    for (int k = 0; k < ITEMS && pending_stage >= 0; ++k) *address(pending_stage, k) = loaded[k];
    pending_stage = stage;
    visit(step, [&](int k, const X* from) { loaded[k] = *from; });
  }
  DEVICE void wait(int) const { copies_wait(); }
  DEVICE void flush(int, long long) const {}
  DEVICE void read(int stage, int k, X (&v)[GROUP]) const {
#pragma unroll
    for (int r = 0; r < GROUP; ++r) v[r] = *address(stage, k + r);
  }
  DEVICE void write(int, long long step, int k, const E (&v)[GROUP]) const {
    Y* to = y + lane.first + (step + k) * stride;
#pragma unroll
    for (int r = 0; r < GROUP; ++r, to += stride) *to = cast<Y>(v[r]);
  }
  DEVICE X read_one(int stage, int k) const { return *address(stage, k); }
  DEVICE void write_one(int, long long step, int k, E value) const {
    y[lane.first + (step + k) * stride] = cast<Y>(value);
  }
};

extern "C" __global__ void __launch_bounds__(32) filter_kernel(
    const Arrays arrays, const Argument<BY_VALUE> with, const Shape shape) {
  __shared__ __align__(16) unsigned char memory[STAGES * ITEMS * 32 * sizeof(X)];
  const long long id = blockIdx.x * 32ll + threadIdx.x, number = id / shape.inner;
  const Lane lane(number, id - number * shape.inner, shape);
  Columns access = {reinterpret_cast<X*>(memory), arrays.x, arrays.y, shape.stride(), lane, shape,
                    reinterpret_cast<const Pieces*>(arrays.x), {}, -1, lane.low};
  Walker<Columns> walker = {with.get(), arrays, shape, access};
  walker.filter_segment(lane);
}

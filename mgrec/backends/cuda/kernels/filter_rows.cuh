// Segments of contiguous rows, or of a few columns side by side: a warp copies the segments of
// its lanes through shared memory, so that memory is read and written in runs.
//
// There a segment's run takes an odd number of 16-byte vectors: lanes read across the runs
// without bank conflicts. Outputs take the place of inputs.
#pragma once
#include "filter.cuh"

constexpr int PER_WARP = 32 / INNER, RUN = ITEMS * INNER, VECTOR = 16 / int(sizeof(E));
constexpr int VECTORS = RUN / VECTOR, PITCH = VECTORS + 1 - VECTORS % 2;
static_assert(RUN % VECTOR == 0 && ITEMS % GROUP == 0 && GROUP % VECTOR == 0, "whole vectors");

union Part {
  uint4 vector;
  E v[VECTOR];
  DEVICE Part() {}
};

struct Rows {
  uint4* memory;
  const E* x;
  E* y;
  const long long *firsts, *lows, *highs;  // of the warp's segments, in elements
  int place;                               // of the lane's first element in a stage

  // visit(element in memory, element of a stage) for each word there is of the steps from `step`.
  template <class Word, class Visit, class Rest>
  DEVICE void visit_words(long long step, Visit visit, Rest rest) const {
    constexpr int LENGTH = sizeof(Word) / sizeof(E), COUNT = RUN / LENGTH, ALL_OF = PER_WARP * COUNT;
#pragma unroll 8
    for (int k = 0; k < (ALL_OF + 31) / 32; ++k) {
      const int index = k * 32 + threadIdx.x, run = index / COUNT, word = index % COUNT * LENGTH;
      if (ALL_OF % 32 && run >= PER_WARP) continue;
      const long long from = step * INNER + word, high = highs[run];
      if (from < lows[run]) continue;
      const int to = run * PITCH * VECTOR + word;
      if (from + LENGTH <= high) visit(firsts[run] + from, to);
      else
        for (int e = 0; from + e < high && e < LENGTH; ++e) rest(firsts[run] + from + e, to + e);
    }
  }

  template <class Word> DEVICE void request_words(E* stage, long long step) const {
    visit_words<Word>(
        step,
        [=](long long element, int to) {
          copy_word(reinterpret_cast<Word*>(stage + to), reinterpret_cast<const Word*>(x + element));
        },
        [=](long long element, int to) { stage[to] = x[element]; });
  }
  DEVICE void request(int number, long long step) const {
    E* const stage = stage_at(number);
    if (BULK) request_words<uint4>(stage, step);
    else request_words<E>(stage, step);
    copies_commit();
  }

  template <class Word> DEVICE void flush_words(const E* stage, long long step) const {
    visit_words<Word>(
        step,
        [=](long long element, int to) {
          *reinterpret_cast<Word*>(y + element) = *reinterpret_cast<const Word*>(stage + to);
        },
        [=](long long element, int to) { y[element] = stage[to]; });
  }
  DEVICE void flush(int number, long long step) const {
    if (BULK) flush_words<uint4>(stage_at(number), step);
    else flush_words<E>(stage_at(number), step);
    __syncwarp();
  }

  DEVICE E* stage_at(int number) const {
    return reinterpret_cast<E*>(memory + number * PER_WARP * PITCH);
  }
  DEVICE bool is_idle() const { return 32 % INNER && threadIdx.x >= PER_WARP * INNER; }

  DEVICE void read(int number, int k, E (&v)[GROUP]) const {
    const E* const from = stage_at(number) + place + k * INNER;
#pragma unroll
    for (int g = 0; g < GROUP; g += VECTOR) {
      Part part;
      if (INNER == 1) part.vector = *reinterpret_cast<const uint4*>(from + g);
#pragma unroll
      for (int r = 0; r < VECTOR; ++r) v[g + r] = INNER == 1 ? part.v[r] : from[(g + r) * INNER];
    }
  }
  DEVICE void write(int number, long long, int k, const E (&v)[GROUP]) const {
    E* const to = stage_at(number) + place + k * INNER;
    if (is_idle()) return;
#pragma unroll
    for (int g = 0; g < GROUP; g += VECTOR) {
      Part part;
#pragma unroll
      for (int r = 0; r < VECTOR; ++r)
        if (INNER == 1) part.v[r] = v[g + r];
        else to[(g + r) * INNER] = v[g + r];
      if (INNER == 1) *reinterpret_cast<uint4*>(to + g) = part.vector;
    }
  }
  DEVICE E read_one(int number, int k) const { return stage_at(number)[place + k * INNER]; }
  DEVICE void write_one(int number, long long, int k, E y) const {
    stage_at(number)[place + k * INNER] = y;
  }
};

DEVICE void filter_segments(const Arrays& arrays, const Coefficients& with, const Shape& shape) {
  __shared__ uint4 memory[STAGES * PER_WARP * PITCH];
  __shared__ long long firsts[32], lows[32], highs[32];
  const int idle = 32 % INNER && threadIdx.x >= PER_WARP * INNER;
  const int run = idle ? PER_WARP - 1 : threadIdx.x / INNER;
  const long long number = blockIdx.x * (long long)PER_WARP;
  const Lane lane(number + run, idle ? INNER : int(threadIdx.x % INNER), shape);
  if (threadIdx.x < PER_WARP) {
    const Lane whole(number + threadIdx.x, 0, shape);
    firsts[threadIdx.x] = whole.first;
    lows[threadIdx.x] = whole.low * INNER;
    highs[threadIdx.x] = whole.high * INNER;
  }
  __syncwarp();
  Rows access = {memory, arrays.x, arrays.y, firsts, lows, highs,
                 run * PITCH * VECTOR + (idle ? 0 : int(threadIdx.x % INNER))};
  Walker<Rows> walker = {with, arrays, shape, access};
  walker.run(lane);
}

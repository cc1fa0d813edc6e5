// Look-ahead across the grid: every block publishes the spans of its tiles and folds all others'.
//
// A span is published as 64-bit words, half data and half tag. Each word is written and read whole,
// so a span needs no fence, no flag of its own and no 128-bit access (.v4 accesses of 32 bits tear).
// The tag holds the launch's epoch: nothing is cleared between launches.
#pragma once
#include "block.cuh"

typedef unsigned long long Unit;
constexpr int UNITS = WORDS + WORDS % 2;  // even, so that pairs are aligned to 16 bytes

DEVICE inline void publish(Unit* descriptors, long long tile, const Span& span, unsigned epoch) {
  Packed packed;
  packed.span = span;
  const Unit tag = Unit(epoch * 4 + span.kind) << 32;
#pragma unroll
  for (int u = 0; u < UNITS; u += 2) {
    const Unit first = tag | packed.word[u], second = tag | (u + 1 < WORDS ? packed.word[u + 1] : 0);
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(
                     descriptors + tile * UNITS + u), "l"(first), "l"(second) : "memory");
  }
}

// False while any word is still of an earlier launch.
DEVICE inline bool received(const Unit* descriptors, long long tile, unsigned epoch, Span& span) {
  Packed packed;
  bool complete = true;
  unsigned tag = 0;
#pragma unroll
  for (int u = 0; u < UNITS; u += 2) {
    Unit first, second;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second) : "l"(descriptors + tile * UNITS + u) : "memory");
    packed.word[u] = unsigned(first);
    if (u + 1 < WORDS) packed.word[u + 1] = unsigned(second);
    tag = unsigned(first >> 32);
    complete = complete && (tag >> 2) == epoch && unsigned(second >> 32) == tag;
  }
  span = packed.span;
  span.kind = tag & 3;
  return complete;
}

// One warp joins the spans of tiles begin..end-1, in order: every lane a run of consecutive tiles,
// then the lanes. All missing spans are polled as one batch (one by one cost 0.2 of the bandwidth).
// The shape of this tree depends on begin and end alone, so the result is the same in every run.
DEVICE inline Span fold(const Unit* descriptors, long long begin, long long end, unsigned epoch) {
  const int lane = threadIdx.x % 32;
  const long long mine = begin + lane * RUN;
  Span run[RUN];
  bool missing[RUN], waiting;
#pragma unroll
  for (int k = 0; k < RUN; ++k) {
    run[k] = empty_span();
    missing[k] = mine + k < end;
  }
  do {
    waiting = false;
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      if (missing[k]) missing[k] = !received(descriptors, mine + k, epoch, run[k]);
      waiting = waiting || missing[k];
    }
  } while (__any_sync(ALL, waiting));
  Span span = run[0];
#pragma unroll
  for (int k = 1; k < RUN; ++k) span = join(span, run[k]);
  return warp_reduce(span, lane);
}

constexpr int RING = 4;  // entries; a block's warps and its look-ahead are never 3 tiles apart

// Between a block's warps and its look-ahead warp: hardware barriers, each in two that take turns,
// since one side may be a tile ahead. Barrier 0 is the block's, 1 that of the scanning threads.
DEVICE inline void arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEVICE inline void meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// The block's last warp has published its tile number `turn`; the look-ahead warp waits for it.
DEVICE inline void announce_published(int turn) { arrive(2 + turn % 2, 64); }
DEVICE inline void await_published(int turn) { meet(2 + turn % 2, 64); }
// The look-ahead warp has found that tile's entry; all scanning threads wait for it.
DEVICE inline void announce_resolved(int turn) { arrive(4 + turn % 2, THREADS + 32); }
DEVICE inline void await_resolved(int turn) { meet(4 + turn % 2, THREADS + 32); }

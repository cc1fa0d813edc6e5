// Scan of spans across the threads of a block.
#pragma once
#include "scans/cuda/scope/spans.cuh"

constexpr int WARPS = THREADS / 32;
static_assert(THREADS % 32 == 0 && WARPS <= 32, "a block is one to 32 whole warps");

// Barrier of the scanning threads; other warps of the block do not take part.
DEVICE inline void synchronize() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }

struct BlockScan {
  Span before;  // join of all earlier threads of the block
  Span total;   // join of the whole block, in every thread
};

// Contains one barrier; `totals` may be reused after the caller's next one. With ALL_MAPS every
// thread has a map.
template <bool ALL_MAPS = false>
DEVICE inline BlockScan block_scan(const Span& mine, Span (&totals)[WARPS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Span inclusive = warp_scan<ALL_MAPS>(mine, lane);
  if (lane == 31) totals[warp] = inclusive;
  synchronize();
  const Span warps =
      warp_scan<ALL_MAPS>(lane < WARPS ? totals[lane] : empty_span(), lane, WARPS);
  const Span earlier_warps = from_lane(warps, warp > 0 ? warp - 1 : 0);
  Span before = exclusive(inclusive, lane);
  if (warp > 0) before = join(earlier_warps, before);
  return {before, from_lane(warps, WARPS - 1)};
}

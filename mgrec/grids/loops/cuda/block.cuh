// A block that goes down a strip of columns: its threads, and their weighted scan.
#pragma once
#include "grids/loops/cuda/grids.cuh"

constexpr int WIDTH = THREADS * ITEMS, WARPS = THREADS / 32;
constexpr int ROW_BYTES = WIDTH * int(sizeof(T)), PACKS = ITEMS / V;
constexpr int AHEAD = STAGES - 2;  // rows under way to shared memory
constexpr bool IS_REAL = is_real<T>::value;
static_assert(AHEAD > 0, "a row is computed and one is written while others are read");

DEVICE inline int lane() { return threadIdx.x % 32; }
DEVICE inline int warp() { return threadIdx.x / 32; }
DEVICE inline void sync_block() {
  if (WARPS == 1) __syncwarp();
  else __syncthreads();
}
// Whether it is so in any thread: a vote is sooner there than a barrier.
DEVICE inline bool any_of_block(bool flag) {
#ifdef __CUDA_ARCH__
  if (WARPS == 1) return __any_sync(ALL, flag);
#endif
  return __syncthreads_or(flag);
}
// The value of the thread before this one; the first thread has `first`. Calls of one number have
// a barrier between them, be it that of another.
template <int CALL> DEVICE inline T from_thread_before(T value, T first) {
  T before = from_lane<true>(value, 1);
  if (WARPS > 1) {
    __shared__ T lasts[WARPS];
    if (lane() == 31) lasts[warp()] = value;
    __syncthreads();
    if (lane() == 0 && warp() > 0) before = lasts[warp() - 1];
  }
  return threadIdx.x == 0 ? first : before;
}

// Steps along a row as one: what becomes of an entry, (entry ∘ weight) ◇ sum.
struct Map {
  T weight, sum;
  DEVICE T apply(T entry) const {
    return accumulate(SAME ? entry : distribute(entry, weight), sum);
  }
};
DEVICE inline Map compose(const Map& earlier, const Map& later) {
  return {SAME ? later.weight : distribute(earlier.weight, later.weight), later.apply(earlier.sum)};
}
template <bool IS_DISTANCE> DEVICE inline Map from_lane(const Map& map, int lane) {
  return {SAME ? map.weight : from_lane<IS_DISTANCE>(map.weight, lane),
          from_lane<IS_DISTANCE>(map.sum, lane)};
}
// A product of weights below the normal numbers has lost digits, or all of them.
DEVICE inline bool is_lost(T weight) {
  if constexpr (LOSES && !SAME && IS_REAL) return np_absolute(weight) < T(SMALLEST);
  return false;
}

// A warp's maps, each composed with all before it.
DEVICE inline Map scan_lanes(Map own, bool& lost) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Map before = from_lane<true>(own, distance);
    if (lane() >= distance) own = compose(before, own);
    lost |= is_lost(own.weight);
  }
  return own;
}
// The map of all threads before this one, which is not the first.
DEVICE inline Map weighted_scan(const Map& own, bool& lost) {
  const Map upto = scan_lanes(own, lost);
  Map before = from_lane<true>(upto, 1);
  if (WARPS > 1) {
    __shared__ T totals[2][WARPS];
    if (lane() == 31) {
      totals[0][warp()] = upto.weight;
      totals[1][warp()] = upto.sum;
    }
    __syncthreads();
    const int other = lane() < WARPS ? lane() : WARPS - 1;
    const Map warps = scan_lanes({totals[0][other], totals[1][other]}, lost);
    const Map earlier = from_lane<false>(warps, warp() > 0 ? warp() - 1 : 0);
    if (warp() > 0) before = lane() > 0 ? compose(earlier, before) : earlier;
  }
  return before;
}

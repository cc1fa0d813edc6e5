// Sums of the products of an array, at several lags, and conjugate signals, by all blocks.
#pragma once
#include "filters/cuda/sum_of_block.cuh"

// All arrays are contiguous, with the axes (outer, steps, inner). The steps of the first one may run
// against memory: step 0 is at `origin`.
struct Extents {
  long long outers, steps, inners, available, origin, outer_stride, step_stride, first_lag;
  long long segments, length;  // of each outer row, a block for each segment
  long long first_sum, block_stride, signal_stride;  // of the sums (blocks, signals, lags)
};

// With one signal, `x` and `y` are the same.
extern "C" __global__ void __launch_bounds__(THREADS) correlate_kernel(
    const U* delayed, const X* x, const X* y, S* sums, const Extents extents) {
  const X* const signals[] = {x, y};
  __shared__ S parts[THREADS];
  S total[SIGNALS * LAGS] = {};
  const long long size = extents.steps * extents.inners;
  for (long long p = blockIdx.x; p < extents.outers * extents.segments; p += gridDim.x) {
    const long long outer = p / extents.segments;
    const long long first = (p - outer * extents.segments) * extents.length;
    const long long end = first + extents.length < size ? first + extents.length : size;
    for (long long k = first + threadIdx.x; k < end; k += THREADS) {
      const long long step = extents.inners == 1 ? k : k / extents.inners;
      const long long lagging = step + extents.first_lag;
      const U* from = delayed + extents.origin + outer * extents.outer_stride +
                      lagging * extents.step_stride + (k - step * extents.inners);
      S value[SIGNALS];
#pragma unroll
      for (int q = 0; q < SIGNALS; ++q)
        value[q] = conjugate_of(cast<S>(signals[q][outer * size + k]));
#pragma unroll
      for (int lag = 0; lag < LAGS; ++lag) {
        if (lagging + lag >= extents.available) break;
        const S factor = cast<S>(from[lag * extents.step_stride]);
#pragma unroll
        for (int q = 0; q < SIGNALS; ++q)
          total[q * LAGS + lag] = total[q * LAGS + lag] + factor * value[q];
      }
    }
  }
  sums += extents.first_sum + blockIdx.x * extents.block_stride;
#pragma unroll
  for (int q = 0; q < SIGNALS; ++q)
#pragma unroll
    for (int lag = 0; lag < LAGS; ++lag) {
      const S all = sum_of_block(total[q * LAGS + lag], parts);
      if (threadIdx.x == 0) sums[q * extents.signal_stride + lag] = all;
    }
}

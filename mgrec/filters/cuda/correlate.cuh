// Sums of the products of an array, at several lags, and a conjugate signal, by all blocks.
#pragma once

// Both arrays are contiguous, with the axes (outer, steps, inner). The steps of the first one may run
// against memory: step 0 is at `origin`.
struct Extents {
  long long outers, steps, inners, available, origin, outer_stride, step_stride, first_lag;
  long long segments, length;  // of each outer row, a block for each segment
};

template <class U, class X, class S>
DEVICE void correlate(const U* delayed, const X* signal, S* sums, const Extents& extents) {
  __shared__ S parts[THREADS];
  S total[LAGS] = {};
  const long long size = extents.steps * extents.inners;
  for (long long p = blockIdx.x; p < extents.outers * extents.segments; p += gridDim.x) {
    const long long outer = p / extents.segments;
    const long long begin = (p - outer * extents.segments) * extents.length;
    const long long end = begin + extents.length < size ? begin + extents.length : size;
    for (long long k = begin + threadIdx.x; k < end; k += THREADS) {
      const long long step = extents.inners == 1 ? k : k / extents.inners;
      const long long lagging = step + extents.first_lag;
      const U* from = delayed + extents.origin + outer * extents.outer_stride +
                      lagging * extents.step_stride + (k - step * extents.inners);
      const S value = conjugate_of(cast<S>(signal[outer * size + k]));
#pragma unroll
      for (int lag = 0; lag < LAGS; ++lag)
        if (lagging + lag < extents.available)
          total[lag] = total[lag] + cast<S>(from[lag * extents.step_stride]) * value;
    }
  }
  for (int lag = 0; lag < LAGS; ++lag) {
    parts[threadIdx.x] = total[lag];
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) parts[threadIdx.x] = parts[threadIdx.x] + parts[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x * LAGS + lag] = parts[0];
    __syncthreads();
  }
}

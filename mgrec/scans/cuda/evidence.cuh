// The length of the prefix of w = s·w + t, after which no carry-in has an effect, by one block.
//
// |A_n|·M < η, where A_n is the product of the first n coefficients, M the largest number and η the
// smallest: the effect is below the rounding of subnormal numbers. The prefix is a power of two of
// steps, so that few programs determine it, and at most `most`; the search ends once the products do
// not predict such a prefix. Logarithms neither overflow nor underflow; coefficients below 2^-250
// count as 2^-250, so that the product of four does not underflow.
#pragma once
#include "scans/cuda/spans.cuh"

constexpr int STRETCH = THREADS * ITEMS;
constexpr double FORGOTTEN = sizeof(T) == 4 ? -279 : -2100;  // log2
static_assert(STRETCH == 4096 && ITEMS <= 4, "a stretch is the shortest head");

// Returns the sum over all earlier threads; `total` is that over all. Contains two barriers.
DEVICE inline double sum_before(double mine, double& total, double (&sums)[WARPS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  double inclusive = mine;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double below = __shfl_up_sync(ALL, inclusive, distance);
    if (lane >= distance) inclusive += below;
  }
  double before = __shfl_up_sync(ALL, inclusive, 1);
  if (lane == 0) before = 0;
  if (lane == 31) sums[warp] = inclusive;
  __syncthreads();
  total = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    if (w == warp) before += total;
    total += sums[w];
  }
  __syncthreads();
  return before;
}

DEVICE void find_prefix(const T* s, long long steps, long long most, Told* told) {
  __shared__ double sums[WARPS], highest[WARPS];
  double level = 0, growth = 0;
  long long prefix = 0;
  for (long long first = 0, next = STRETCH; next <= most && !prefix; first += STRETCH) {
    double product = 1, largest = 1, total;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const long long time = first + threadIdx.x * ITEMS + k;
      const double size = fabs(double(s[REVERSE ? steps - 1 - time : time]));
      product *= size < 0x1p-250 && size > 0 ? 0x1p-250 : size;
      largest = product > largest ? product : largest;
    }
    const double before = level + sum_before(log2(product), total, sums);
    const double high = before + log2(largest);
    growth = high > growth ? high : growth;
    level += total;
    if (first + STRETCH < next) continue;
    if (level < FORGOTTEN) prefix = next;
    if (!(level * double(most / next) < FORGOTTEN)) break;
    next *= 2;
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double other = __shfl_down_sync(ALL, growth, distance);
    growth = other > growth ? other : growth;
  }
  if (threadIdx.x % 32 == 0) highest[threadIdx.x / 32] = growth;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < WARPS; ++w) growth = highest[w] > growth ? highest[w] : growth;
  *told = {double(prefix), growth, 0, 0};
}

// Writes, for every row, the largest result of the prefix, or nan if one is nan, and the last result.
DEVICE void summarise_results(const T* results, long long steps, long long inners, long long prefix,
                              double* largest_of, double* last_results) {
  __shared__ double block_largest[WARPS];
  const long long row = blockIdx.x;
  const long long first = row / inners * steps * inners + row % inners;
  double largest = 0;
  for (long long time = threadIdx.x; time < prefix; time += THREADS) {
    const double size = fabs(double(results[first + (REVERSE ? steps - 1 - time : time) * inners]));
    if (size > largest || size != size) largest = size;
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double other = __shfl_down_sync(ALL, largest, distance);
    if (other > largest || other != other) largest = other;
  }
  if (threadIdx.x % 32 == 0) block_largest[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < WARPS; ++w)
    if (block_largest[w] > largest || block_largest[w] != block_largest[w])
      largest = block_largest[w];
  largest_of[row] = largest;
  last_results[row] = double(results[first + (REVERSE ? 0 : steps - 1) * inners]);
}

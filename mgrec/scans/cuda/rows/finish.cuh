// Join the pieces of each row to one map, by a warp for each row, in fixed order.
#pragma once
#include "scans/cuda/scope/spans.cuh"

DEVICE void finish(const Span* spans, long long rows, long long pieces,
                   T* const (&maps)[Transfer::WIDTH]) {
  const int lane = threadIdx.x % 32;
  const long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  const long long run = (pieces + 31) / 32, begin = lane * run;
  Span span = empty_span();
  for (long long k = begin; k < begin + run && k < pieces; ++k)
    span = join(span, spans[row * pieces + k]);
  span = warp_reduce(span, lane);
  if (lane == 0)
    for (int k = 0; k < Transfer::WIDTH; ++k) maps[k][row] = span.v[k];
}

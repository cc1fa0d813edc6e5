// Precompute contiguous rows: every block composes a piece of a row, tile after tile.
#pragma once
#include "scans/cuda/rows/tile.cuh"

// Joins the results of the threads of a block; thread 0 has the total.
template <class C> struct AcrossThreads {
  Span (&totals)[WARPS];
  C (&bounded_totals)[32];
  DEVICE Span join_spans(const Span& mine) const { return block_scan(mine, totals).total; }
  DEVICE C join_bounded(C bounded) const {
    const int lane = threadIdx.x % 32;
    bounded = reduce_bounded(bounded, lane, 32);
    if (lane == 0) bounded_totals[threadIdx.x / 32] = bounded;
    __syncthreads();
    if (threadIdx.x < 32)
      bounded = reduce_bounded(bounded_totals[lane < WARPS ? lane : 0], lane, WARPS);
    return bounded;
  }
};

DEVICE void precompute_rows(const Source& whole_source, Span* spans, long long rows,
                            long long steps, long long pieces) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Span totals[2][WARPS];
  __shared__ BoundedMap bounded_totals[32];
  const long long row = blockIdx.x / pieces, piece = blockIdx.x % pieces;
  const Shape shape = {rows, steps, steps, (steps + TILE - 1) / TILE, row};
  Source source = whole_source;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p) source.stream[p] += row * steps;
  const long long first_tile = shape.tiles * piece / pieces;
  const long long end = shape.tiles * (piece + 1) / pieces;
  const Stages stages(memory);
  if (BULK && threadIdx.x == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(stages.barriers + k);
    fence_proxy();
    for (int k = 0; k < STAGES; ++k)
      if (first_tile + k < end) request(stages, k, source, first_tile + k, shape);
  }
  if (STAGED)
    for (int k = 0; k < STAGES; ++k)
      request_vectors(stages, k, source, first_tile + k < end ? first_tile + k : shape.tiles,
                      shape);
  __syncthreads();
  const Entry no_carry_ins = {};
  Running running;
  int stage = 0;
  unsigned parity = 0;
  for (long long tile = first_tile; tile < end; ++tile) {
    const PartPosition position = position_of(tile, shape);
    Items items;
    read_items(stages, stage, parity, source, position, shape, items);
    const auto has = [&](int r) { return position.first + r < shape.total; };
    const auto load_next = [&] {
      if (STAGED)
        request_vectors(stages, stage, source, tile + STAGES < end ? tile + STAGES : shape.tiles,
                        shape);
      else if (threadIdx.x == 0 && tile + STAGES < end)
        request(stages, stage, source, tile + STAGES, shape);
    };
    const auto step_by_step = [&] {
      return upsweep(source, items, Walk(), position, shape, no_carry_ins);
    };
    running.take(source, items, position.whole, has, step_by_step, load_next,
                 AcrossThreads<BoundedMap>{totals[tile % 2], bounded_totals});
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  if (threadIdx.x == 0) spans[blockIdx.x] = running.whole();
}

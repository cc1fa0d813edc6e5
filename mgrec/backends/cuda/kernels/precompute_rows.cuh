// Precompute contiguous rows: reads only. Every block joins a piece of a row, tile after tile.
#pragma once
#include "calm.cuh"
#include "walk.cuh"

DEVICE void precompute_rows(const Source& whole_source, Span* spans, long long rows,
                            long long steps, long long pieces) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Span totals[2][WARPS];
  __shared__ Calm calm_totals[32];
  const long long row = blockIdx.x / pieces, piece = blockIdx.x % pieces;
  const Shape shape = {rows, steps, steps, (steps + TILE - 1) / TILE, row};
  Source source = whole_source;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p) source.stream[p] += row * steps;
  const long long begin = shape.tiles * piece / pieces, end = shape.tiles * (piece + 1) / pieces;
  const Stages stages(memory);
  if (BULK && threadIdx.x == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(stages.barriers + k);
    fence_proxy();
    for (int k = 0; k < STAGES; ++k)
      if (begin + k < end) request(stages, k, source, begin + k, shape);
  }
  if (STAGED)
    for (int k = 0; k < STAGES; ++k)
      request_vectors(stages, k, source, begin + k < end ? begin + k : shape.tiles, shape);
  __syncthreads();
  const T* const no_entry[Transfer::STATES] = {};
  Span running = empty_span();
  int stage = 0;
  unsigned parity = 0;
  for (long long tile = begin; tile < end; ++tile) {
    const Place place = place_of(tile, shape);
    Items items;
    read_items(stages, stage, parity, source, place, shape, items);
    const auto has = [&](int r) { return place.first + r < shape.total; };
    const auto load_next = [&] {
      if (STAGED)
        request_vectors(stages, stage, source, tile + STAGES < end ? tile + STAGES : shape.tiles,
                        shape);
      else if (threadIdx.x == 0 && tile + STAGES < end)
        request(stages, stage, source, tile + STAGES, shape);
    };
    Span total = empty_span();
    bool is_calm = false;
    if constexpr (GUARDED)
      is_calm = join_calm(source, items, place.whole, has, load_next, calm_totals, total);
    if (!is_calm) {
      const Span mine = upsweep(source, items, Walk(), place, shape, no_entry);
      total = block_scan(mine, totals[tile % 2]).total;
      load_next();
    }
    if (!GUARDED || threadIdx.x == 0) running = join(running, total);
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  if (threadIdx.x == 0) spans[blockIdx.x] = running;
}

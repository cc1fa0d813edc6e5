// Precompute columns: every block composes a piece of 32 columns.
#pragma once
#include "scans/cuda/columns/columns.cuh"

static_assert(LANE_COLUMNS == 1, "a tile is joined a lane a column");

// Joins the results of the warps of a block, a lane for each column; the first warp has the total.
template <class C> struct AcrossWarps {
  Span (&totals)[WARPS][COLUMNS];
  C (&bounded_totals)[WARPS][32];
  DEVICE Span join_spans(const Span& mine) const {
    return join_warps({{mine}}, totals).total.of[0];
  }
  DEVICE C join_bounded(C bounded) const {
    const int lane = threadIdx.x % 32;
    bounded_totals[threadIdx.x / 32][lane] = bounded;
    __syncthreads();
    if (threadIdx.x < 32)
      for (int k = 1; k < WARPS; ++k) bounded = compose_bounded(bounded, bounded_totals[k][lane]);
    return bounded;
  }
};

DEVICE void precompute_columns(const Source& source, Span* spans, const Columns& shape,
                               long long pieces) {
  extern __shared__ __align__(16) unsigned char memory[];
  Stored* const slots = reinterpret_cast<Stored*>(memory);
  __shared__ Span totals[2][WARPS][32];
  __shared__ BoundedMap bounded_totals[WARPS][32];
  const long long piece = blockIdx.x % pieces, group = blockIdx.x / pieces;
  const long long first_tile = shape.tiles * piece / pieces;
  const long long end = shape.tiles * (piece + 1) / pieces;
  Cursor at = {group, first_tile, 0, column_of(group, shape), false};
  Cursor later = at;
  for (int k = 0; k < STAGES; ++k, ++later.tile) {
    if (later.tile >= end) later.group = shape.groups;  // loads nothing
    later.locate(shape);
    request(slots, k, source, later, shape);
  }
  Running running;
  int stage = 0;
  for (; at.tile < end; ++at.tile, ++later.tile) {
    if (later.tile >= end) later.group = shape.groups;
    at.locate(shape);
    later.locate(shape);
    Items items;
    read_items(slots, stage, source, at, shape, items);
    const auto has = [&](int r) { return at.has(r, shape); };
    const auto load_next = [&] { request(slots, stage, source, later, shape); };
    const auto step_by_step = [&] { return upsweep(source, items, at, shape, 0); };
    running.take(source, items, at.whole, has, step_by_step, load_next,
                 AcrossWarps<BoundedMap>{totals[at.tile % 2], bounded_totals});
    if (++stage == STAGES) stage = 0;
  }
  if (threadIdx.x < 32 && at.column.exists)
    spans[(group * 32 + threadIdx.x) * pieces + piece] = running.whole();
}

// Precompute along a slow axis: reads only. Every block joins a piece of 32 columns.
#pragma once
#include "calm.cuh"
#include "columns.cuh"

static_assert(PACK == 1, "a calm tile is joined a lane a column");

DEVICE void precompute_columns(const Source& source, Span* spans, const Columns& shape,
                               long long pieces) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* const slots = reinterpret_cast<T*>(memory);
  __shared__ Span totals[2][WARPS][32];
  __shared__ Calm calm_totals[WARPS][32];
  const long long piece = blockIdx.x % pieces, group = blockIdx.x / pieces;
  const long long begin = shape.tiles * piece / pieces, end = shape.tiles * (piece + 1) / pieces;
  Cursor at = {group, begin, 0, column_of(group, shape), false};
  Cursor later = at;
  for (int k = 0; k < STAGES; ++k, ++later.tile) {
    if (later.tile >= end) later.group = shape.groups;  // asks for nothing
    later.place(shape);
    request(slots, k, source, later, shape);
  }
  Span running = empty_span();
  int stage = 0;
  for (; at.tile < end; ++at.tile, ++later.tile) {
    if (later.tile >= end) later.group = shape.groups;
    at.place(shape);
    later.place(shape);
    Items items;
    read_items(slots, stage, source, at, shape, items);
    const auto has = [&](int r) { return at.has(r, shape); };
    const auto load_next = [&] { request(slots, stage, source, later, shape); };
    Span total = empty_span();
    bool is_calm = false;
    if constexpr (GUARDED)
      is_calm = join_calm(source, items, at.whole, has, load_next, calm_totals, total);
    if (!is_calm) {
      total = join_warps(upsweep(source, items, at, shape), totals[at.tile % 2]).total.of[0];
      load_next();
    }
    if (!GUARDED || threadIdx.x < 32) running = join(running, total);
    if (++stage == STAGES) stage = 0;
  }
  if (threadIdx.x < 32 && at.column.exists)
    spans[(group * 32 + threadIdx.x) * pieces + piece] = running;
}

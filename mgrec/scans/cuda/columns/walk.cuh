// Determine many columns by the plain loop: a lane has a few columns, a warp 32 times as many.
#pragma once
#include "scans/cuda/columns/columns.cuh"

static_assert(WARPS == 1 && TEAM == 1, "a block is one warp");

DEVICE void walk_columns(const Source& source, const Entry& carry_ins,
                         Stored* const (&results)[Transfer::STATES],
                         const Columns& ungrouped) {
  extern __shared__ __align__(16) unsigned char memory[];
  Stored* const slots = reinterpret_cast<Stored*>(memory);
  const Columns shape = grouped(ungrouped);
  Cursor at = {blockIdx.x, 0, 0, column_of(blockIdx.x, shape), false};
  at.locate(shape);
  Cursor later = at;
  for (int k = 0; k < STAGES; ++k, advance(later, shape))
    request(slots, k, source, later, shape);
  States states = {};
  for (int stage = 0; !at.ends(shape); advance(at, shape)) {
    Items items;
    read_items(slots, stage, source, at, shape, items);
    request(slots, stage, source, later, shape);
    advance(later, shape);
    if (at.tile == 0) states = carry_ins_of(carry_ins, at.column, shape);
    states = downsweep(source, items, at, shape, states, results, [](const Transfer::State&) {});
    if (++stage == STAGES) stage = 0;
  }
}

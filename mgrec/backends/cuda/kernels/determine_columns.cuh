// Determine rows along a slow axis: a lane a column, a warp a run of ITEMS steps.
//
// A block is 32 neighbouring columns wide and WARPS × ITEMS steps long, so every access of a warp is
// coalesced and nothing is transposed. Where columns are too few for the GPU, a team of blocks
// shares them: step tiles are dealt round robin in the team, with the look-ahead of contiguous rows.
#pragma once
#include "lookahead.cuh"

constexpr int STEPS = WARPS * ITEMS;  // of a tile

struct Columns {
  long long outers, steps, inners, count, groups, tiles;  // tiles: along the steps
};

struct Column {
  long long outer, inner, base;
  bool exists;
};

DEVICE inline Column column_of(long long group, const Columns& shape) {
  const long long number = group * 32 + threadIdx.x % 32;
  Column column = {0, number, number, number < shape.count};
  if (shape.outers > 1 && column.exists) {
    column.outer = number / shape.inners;
    column.inner = number - column.outer * shape.inners;
    column.base = column.outer * shape.steps * shape.inners + column.inner;
  }
  return column;
}

// The tiles of a team's member, group after group.
struct Cursor {
  long long group, tile;
  Column column;
  DEVICE bool ends(const Columns& shape) const { return group >= shape.groups; }
  DEVICE void advance(const Columns& shape) {
    tile += TEAM;
    if (tile < shape.tiles) return;
    tile = blockIdx.x % TEAM;
    group += gridDim.x / TEAM;
    if (!ends(shape)) column = column_of(group, shape);
  }
};

// First step, in memory order, of this warp's run in a tile.
DEVICE inline long long step_of(long long tile, const Columns& shape) {
  const long long run = tile * WARPS + threadIdx.x / 32;
  return REVERSE ? shape.steps - (run + 1) * ITEMS : run * ITEMS;
}
DEVICE inline bool exists(long long step, const Columns& shape) {
  return REVERSE ? step >= 0 : step < shape.steps;
}
DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

DEVICE inline void read_items(const Source& source, const Cursor& at, const Columns& shape,
                              Items& items) {
  if (at.ends(shape) || !at.column.exists) return;
  const long long step = step_of(at.tile, shape);
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
#pragma unroll
    for (int r = 0; r < ITEMS; ++r)
      if (exists(step + r, shape))
        items.v[p][r] = source.stream[p][at.column.base + (step + r) * shape.inners];
}

DEVICE inline void complete_items(const Source& source, const Cursor& at, const Columns& shape,
                                  Items& items) {
  if (VARYING > Source::STREAMS && at.column.exists)
    source.complete(items, at.column.outer, step_of(at.tile, shape), at.column.inner, shape.outers,
                    shape.steps);
  source.lift_items(items);
}

DEVICE inline Span upsweep(const Source& source, const Items& items, const Cursor& at,
                           const Columns& shape) {
  Span span = empty_span();
  if (!at.column.exists) return span;
  const long long step = step_of(at.tile, shape);
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (exists(step + in_time(r), shape))
      span = join(span, span_of(source.map(items, in_time(r))));
  return span;
}

DEVICE inline void downsweep(const Source& source, const Items& items, const Cursor& at,
                             const Columns& shape, Transfer::State state,
                             T* const (&results)[Transfer::STATES]) {
  if (!at.column.exists) return;
  const long long step = step_of(at.tile, shape);
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    if (!exists(step + in_time(r), shape)) continue;
    state = Transfer::apply(source.map(items, in_time(r)), state);
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
      results[q][at.column.base + (step + in_time(r)) * shape.inners] = state.v[q];
  }
}

DEVICE inline Transfer::State entry_of(const T* const (&entry)[Transfer::STATES],
                                       const Column& column, const Columns& shape) {
  Transfer::State state = {};
  if (!column.exists) return state;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    state.v[q] = entry[q][column.outer * shape.inners + column.inner];
  return state;
}

// Every lane joins the spans of its own column in tiles begin..end-1 of the group.
DEVICE inline Span fold_column(const Unit* descriptors, long long begin, long long end,
                               unsigned epoch) {
  const int lane = threadIdx.x % 32;
  Span run[TEAM];
  bool complete;
  do {
    complete = true;
#pragma unroll
    for (int k = 0; k < TEAM; ++k) {
      run[k] = empty_span();
      if (begin + k < end)
        complete = received(descriptors, (begin + k) * 32 + lane, epoch, run[k]) && complete;
    }
  } while (!complete);
  Span span = run[0];
#pragma unroll
  for (int k = 1; k < TEAM; ++k) span = join(span, run[k]);
  return span;
}

// Joins of a tile: of what lies before this warp's run, and of the whole.
struct Joins { Span before, total; };

DEVICE inline Joins join_warps(const Span& mine, Span (&totals)[WARPS][32]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  totals[warp][lane] = mine;
  __syncthreads();
  Joins joins = {empty_span(), empty_span()};
#pragma unroll
  for (int k = 0; k < WARPS; ++k) {
    if (k == warp) joins.before = joins.total;
    joins.total = join(joins.total, totals[k][lane]);
  }
  return joins;
}

DEVICE void determine_columns(const Source& source, const T* const (&entry)[Transfer::STATES],
                              T* const (&results)[Transfer::STATES], Unit* descriptors,
                              const Columns& shape, unsigned epoch) {
  __shared__ Span totals[2][WARPS][32];
  __shared__ Transfer::State tile_entry[2][32];  // two, since the last tile has one barrier only
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long first_group = blockIdx.x / TEAM, member = blockIdx.x % TEAM;
  Cursor at = {shape.groups, 0, {}}, next = {first_group, member, column_of(first_group, shape)};
  if (member >= shape.tiles) return;
  Cursor later = next;
  Items items, next_items, incoming;
  read_items(source, later, shape, incoming);
  Joins joins, next_joins;
  Transfer::State state = {};      // warp 0: at the beginning of the block's last tile
  Span carried = empty_span();     // and of a team of one: the join of that tile
  long long last = 0;
  for (int turn = 0; turn == 0 || !at.ends(shape); ++turn) {
    next_items = incoming;
    later.advance(shape);
    read_items(source, later, shape, incoming);
    if (!next.ends(shape)) {  // upsweep of the next tile
      complete_items(source, next, shape, next_items);
      next_joins = join_warps(upsweep(source, next_items, next, shape), totals[turn % 2]);
      if (TEAM > 1 && warp == WARPS - 1)
        publish(descriptors, (next.group * shape.tiles + next.tile) * 32 + lane, next_joins.total,
                epoch);
    }
    if (turn > 0) {
      if (warp == 0) {  // spine: the states at the beginning of this tile
        if (at.tile == member) {
          state = entry_of(entry, at.column, shape);
          carried = empty_span();
          last = 0;
        }
        const long long tiles = at.group * shape.tiles;
        if (TEAM == 1) state = after(carried, state);
        else state = after(fold_column(descriptors, tiles + last, tiles + at.tile, epoch), state);
        carried = joins.total;
        last = at.tile;
        tile_entry[turn % 2][lane] = state;
      }
      __syncthreads();
      const Transfer::State begin = after(joins.before, tile_entry[turn % 2][lane]);
      downsweep(source, items, at, shape, begin, results);
    }
    at = next;
    next = later;
    items = next_items;
    joins = next_joins;
  }
}

// Columns: a lane a column, a warp a run of ITEMS steps, so that every access is coalesced.
//
// A block is 32 neighbouring columns wide and WARPS × ITEMS steps long. Loads go through shared
// memory as an extension of the registers: every thread copies and reads its own slots alone, so
// the copies need no barrier.
#pragma once
#include "block.cuh"
#include "copies.cuh"

constexpr int STEPS = WARPS * ITEMS;  // of a tile

struct Columns {
  long long outers, steps, inners, count, groups, tiles;  // groups of 32, tiles along the steps
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

// A tile of a group of 32 columns; this thread's run begins at `step` in memory order.
struct Cursor {
  long long group, tile, step;
  Column column;
  bool whole;  // every step of the run exists
  DEVICE void place(const Columns& shape) {
    const long long run = tile * WARPS + threadIdx.x / 32;
    step = REVERSE ? shape.steps - (run + 1) * ITEMS : run * ITEMS;
    whole = column.exists && step >= 0 && step + ITEMS <= shape.steps;
  }
  DEVICE bool has(int r, const Columns& shape) const {
    return column.exists && step + r >= 0 && step + r < shape.steps;
  }
  DEVICE bool ends(const Columns& shape) const { return group >= shape.groups; }
};

// Tiles past the end, which fill up a team's last turn, hold no step.
DEVICE inline void advance(Cursor& at, const Columns& shape) {
  at.tile += TEAM;
  if (at.tile >= (shape.tiles + TEAM - 1) / TEAM * TEAM) {
    at.tile = blockIdx.x % TEAM;
    at.group += gridDim.x / TEAM;
    if (!at.ends(shape)) at.column = column_of(at.group, shape);
  }
  at.place(shape);
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

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

DEVICE inline T* slot(T* slots, int stage, int p, int r) {
  return slots + ((stage * Source::STREAMS + p) * ITEMS + r) * THREADS + threadIdx.x;
}

DEVICE inline void request(T* slots, int stage, const Source& source, const Cursor& at,
                           const Columns& shape) {
  if (STAGES == 0) return;
  if (!at.ends(shape)) {
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p) {
      const T* from = source.stream[p] + at.column.base + at.step * shape.inners;
#pragma unroll
      for (int r = 0; r < ITEMS; ++r, from += shape.inners)
        if (at.whole || at.has(r, shape)) copy_word(slot(slots, stage, p, r), from);
    }
  }
  copies_commit();
}

DEVICE inline void read_items(T* slots, int stage, const Source& source, const Cursor& at,
                              const Columns& shape, Items& items) {
  if (STAGES > 0) copies_wait();
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p) {
    const T* from = source.stream[p] + at.column.base + at.step * shape.inners;
#pragma unroll
    for (int r = 0; r < ITEMS; ++r, from += shape.inners)
      if (STAGES > 0) items.v[p][r] = *slot(slots, stage, p, r);
      else if (at.whole || at.has(r, shape)) items.v[p][r] = *from;
  }
  items.step = at.step;
  if (VARYING > Source::STREAMS && at.column.exists && at.step < shape.steps)
    source.complete(items, at.column.outer, at.step, at.column.inner, shape.outers, shape.steps);
  source.lift_items(items);
}

DEVICE inline Span upsweep(const Source& source, const Items& items, const Cursor& at,
                           const Columns& shape) {
  if (at.whole) {
    Transfer::Map map = source.map(items, in_time(0));
#pragma unroll
    for (int r = 1; r < ITEMS; ++r) map = Transfer::compose(map, source.map(items, in_time(r)));
    return span_of(map);
  }
  Span span = empty_span();
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (at.has(in_time(r), shape)) span = join(span, span_of(source.map(items, in_time(r))));
  return span;
}

// Returns the state after the run.
DEVICE inline Transfer::State downsweep(const Source& source, const Items& items, const Cursor& at,
                                        const Columns& shape, Transfer::State state,
                                        T* const (&results)[Transfer::STATES]) {
  const long long begin = at.column.base + at.step * shape.inners;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    if (!at.whole && !at.has(in_time(r), shape)) continue;
    state = Transfer::apply(source.map(items, in_time(r)), state);
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
      results[q][begin + in_time(r) * shape.inners] = state.v[q];
  }
  return state;
}

// Joins of a tile: of what lies before this warp's run, and of the whole.
struct Joins { Span before, total; };

// Holds one barrier; two arrays of totals take turns.
DEVICE inline Joins join_warps(const Span& mine, Span (&totals)[WARPS][32]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  totals[warp][lane] = mine;
  synchronize();
  Joins joins = {empty_span(), empty_span()};
#pragma unroll
  for (int k = 0; k < WARPS; ++k) {
    if (k == warp) joins.before = joins.total;
    joins.total = join(joins.total, totals[k][lane]);
  }
  return joins;
}

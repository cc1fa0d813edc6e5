// Columns: a lane has a few neighbouring columns, a warp a run of steps, so that accesses coalesce.
//
// A block is 32 × LANE_COLUMNS columns wide and WARPS × RUN steps long. If alignment allows, a lane
// moves words of 8 or 16 bytes: steps are far apart in memory, and 256 bytes of each ran at 0.89 of the floor, 128 at 0.73. Loads go through shared memory as an extension of the
// registers: every thread copies and reads its own slots only, so that the copies need no barrier.
#pragma once
#include "scans/cuda/spans.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int RUN = ITEMS / LANE_COLUMNS;   // steps of a thread
constexpr int STEPS = WARPS * RUN;          // of a tile
constexpr int COLUMNS = 32 * LANE_COLUMNS;  // of a group
static_assert(RUN * LANE_COLUMNS == ITEMS, "whole steps");
static_assert(LANE_COLUMNS == 1 || VARYING == Source::STREAMS,
              "what is gathered has one column a lane");

// Neighbours of one step: item r of a thread is column r % LANE_COLUMNS of step r / LANE_COLUMNS.
struct alignas(LANE_COLUMNS > 1 ? LANE_COLUMNS * sizeof(Stored) : alignof(Stored)) Vector {
  Stored v[LANE_COLUMNS];
};

struct Columns {
  long long outers, steps, inners, count, groups, tiles;  // tiles along the steps
};

DEVICE inline Columns grouped(Columns shape) {
  shape.groups = (shape.count + COLUMNS - 1) / COLUMNS;
  shape.tiles = (shape.steps + STEPS - 1) / STEPS;
  return shape;
}

// The first column of a lane; vectors are whole, since LANE_COLUMNS divides `inners`.
struct Column {
  long long outer, inner, base;
  bool exists;
};

DEVICE inline Column column_of(long long group, const Columns& shape) {
  const long long number = group * COLUMNS + threadIdx.x % 32 * LANE_COLUMNS;
  Column column = {0, number, number, number < shape.count};
  if (shape.outers > 1 && column.exists) {
    column.outer = number / shape.inners;
    column.inner = number - column.outer * shape.inners;
    column.base = column.outer * shape.steps * shape.inners + column.inner;
  }
  return column;
}

// A tile of a group of columns; this thread's run begins at `step` in memory order.
struct Cursor {
  long long group, tile, step;
  Column column;
  bool whole;  // every step of the run exists
  DEVICE void locate(const Columns& shape) {
    const long long part = tile * WARPS + threadIdx.x / 32;
    step = REVERSE ? shape.steps - (part + 1) * RUN : part * RUN;
    whole = column.exists && step >= 0 && step + RUN <= shape.steps;
  }
  DEVICE bool has(int k, const Columns& shape) const {
    return column.exists && step + k >= 0 && step + k < shape.steps;
  }
  DEVICE bool ends(const Columns& shape) const { return group >= shape.groups; }
};

// Tiles past the end, in the last round of a team, have no steps.
DEVICE inline void advance(Cursor& at, const Columns& shape) {
  at.tile += TEAM;
  if (at.tile >= (shape.tiles + TEAM - 1) / TEAM * TEAM) {
    at.tile = blockIdx.x % TEAM;
    at.group += gridDim.x / TEAM;
    if (!at.ends(shape)) at.column = column_of(at.group, shape);
  }
  at.locate(shape);
}

// Values for each column of a lane.
struct States { Transfer::State of[LANE_COLUMNS]; };
struct Spans { Span of[LANE_COLUMNS]; };

DEVICE inline States carry_ins_of(const Entry& carry_ins, const Column& column,
                                  const Columns& shape) {
  States states = {};
  if (!column.exists) return states;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c)
    states.of[c] = carry_ins.at(column.outer * shape.inners + column.inner + c);
  return states;
}

DEVICE inline Spans empty_spans() {
  Spans spans;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) spans.of[c] = empty_span();
  return spans;
}

DEVICE inline States after(const Spans& spans, const States& states) {
  States later;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) later.of[c] = after(spans.of[c], states.of[c]);
  return later;
}

DEVICE inline int in_time(int k) { return REVERSE ? RUN - 1 - k : k; }

DEVICE inline Vector* slot(Stored* slots, int stage, int p, int k) {
  return reinterpret_cast<Vector*>(slots) +
         ((stage * Source::STREAMS + p) * RUN + k) * THREADS + threadIdx.x;
}

DEVICE inline const Vector* vector_of(const Stored* from) {
  return reinterpret_cast<const Vector*>(from);
}

DEVICE inline void request(Stored* slots, int stage, const Source& source, const Cursor& at,
                           const Columns& shape) {
  if (STAGES == 0) return;
  if (!at.ends(shape)) {
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p) {
      const Stored* from = source.stream[p] + at.column.base + at.step * shape.inners;
#pragma unroll
      for (int k = 0; k < RUN; ++k, from += shape.inners)
        if (at.whole || at.has(k, shape)) copy_word(slot(slots, stage, p, k), vector_of(from));
    }
  }
  copies_commit();
}

DEVICE inline void read_items(Stored* slots, int stage, const Source& source, const Cursor& at,
                              const Columns& shape, Items& items) {
  if (STAGES > 0) copies_wait();
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p) {
    const Stored* from = source.stream[p] + at.column.base + at.step * shape.inners;
#pragma unroll
    for (int k = 0; k < RUN; ++k, from += shape.inners) {
      Vector vector = {};
      if (STAGES > 0) vector = *slot(slots, stage, p, k);
      else if (at.whole || at.has(k, shape)) vector = *vector_of(from);
#pragma unroll
      for (int c = 0; c < LANE_COLUMNS; ++c)
        items.v[p][k * LANE_COLUMNS + c] = cast<T>(vector.v[c]);
    }
  }
  items.step = at.step;
  if (VARYING > Source::STREAMS && at.column.exists && at.step < shape.steps)
    source.complete(items, at.column.outer, at.step, at.column.inner, shape.outers, shape.steps);
  source.lift_items(items);
}

DEVICE inline Span upsweep(const Source& source, const Items& items, const Cursor& at,
                           const Columns& shape, int c) {
  if (at.whole) {
    Transfer::Map map = source.map(items, in_time(0) * LANE_COLUMNS + c);
#pragma unroll
    for (int k = 1; k < RUN; ++k)
      map = Transfer::compose(map, source.map(items, in_time(k) * LANE_COLUMNS + c));
    return span_of(map);
  }
  Span span = empty_span();
#pragma unroll
  for (int k = 0; k < RUN; ++k)
    if (at.has(in_time(k), shape))
      span = join(span, span_of(source.map(items, in_time(k) * LANE_COLUMNS + c)));
  return span;
}

DEVICE inline Spans upsweep(const Source& source, const Items& items, const Cursor& at,
                            const Columns& shape) {
  Spans spans;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) spans.of[c] = upsweep(source, items, at, shape, c);
  return spans;
}

// Returns the states after the run; calls see(state) after every step.
template <class See>
DEVICE inline States downsweep(const Source& source, const Items& items, const Cursor& at,
                               const Columns& shape, States states,
                               Stored* const (&results)[Transfer::STATES], See see) {
  const long long first = at.column.base + at.step * shape.inners;
#pragma unroll
  for (int k = 0; k < RUN; ++k) {
    if (!at.whole && !at.has(in_time(k), shape)) continue;
    Vector vector[Transfer::STATES];
#pragma unroll
    for (int c = 0; c < LANE_COLUMNS; ++c) {
      states.of[c] =
          Transfer::apply(source.map(items, in_time(k) * LANE_COLUMNS + c), states.of[c]);
      see(states.of[c]);
#pragma unroll
      for (int q = 0; q < Transfer::STATES; ++q) vector[q].v[c] = cast<Stored>(states.of[c].v[q]);
    }
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
      *reinterpret_cast<Vector*>(results[q] + first + in_time(k) * shape.inners) = vector[q];
  }
  return states;
}

// Joins of a tile: of the runs before this warp's run, and of all runs.
struct Joins { Spans before, total; };

// Contains one barrier; callers alternate two arrays of totals.
DEVICE inline Joins join_warps(const Spans& mine, Span (&totals)[WARPS][COLUMNS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) totals[warp][c * 32 + lane] = mine.of[c];
  synchronize();
  Joins joins = {empty_spans(), empty_spans()};
#pragma unroll
  for (int k = 0; k < WARPS; ++k) {
    if (k == warp) joins.before = joins.total;
#pragma unroll
    for (int c = 0; c < LANE_COLUMNS; ++c)
      joins.total.of[c] = join(joins.total.of[c], totals[k][c * 32 + lane]);
  }
  return joins;
}

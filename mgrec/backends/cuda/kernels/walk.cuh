// One thread's walk over its items: upsweep (their span) and downsweep (their states).
#pragma once
#include "tile.cuh"

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

DEVICE inline Transfer::State entry_of(const T* const (&entry)[Transfer::STATES], long long row,
                                       const Shape& shape) {
  Transfer::State state = {};
  if (row < 0 || row >= shape.rows) return state;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) state.v[q] = entry[q][row];
  return state;
}

// Where a thread's first item in time lies. It moves with the tiles: one division a launch.
struct Position {
  long long row, step;
  DEVICE Position(const Place& place, const Shape& shape) {
    const long long element = place.first + (REVERSE ? ITEMS - 1 : 0);
    row = element / shape.steps;
    step = element - row * shape.steps;
  }
  DEVICE void move(long long rows, long long steps, const Shape& shape) {
    row += REVERSE ? -rows : rows;
    step += REVERSE ? -steps : steps;
    if (REVERSE && step < 0) step += shape.steps, --row;
    if (!REVERSE && step >= shape.steps) step -= shape.steps, ++row;
  }
};

// Where rows begin among a thread's items.
struct Walk {
  int until;              // items before the next row begins, ITEMS when none does
  long long row;          // the row that begins there
  Transfer::State entry;  // its entry, loaded ahead of use
  DEVICE Walk() : until(ITEMS), row(0), entry() {}
  DEVICE Walk(const Position& position, const Shape& shape,
              const T* const (&entries)[Transfer::STATES]) {
    const long long done = REVERSE ? shape.steps - 1 - position.step : position.step;
    const long long left = done == 0 ? 0 : shape.steps - done;
    until = left < ITEMS ? int(left) : ITEMS;
    row = position.row + (done == 0 ? 0 : REVERSE ? -1 : 1);
    if (until < ITEMS) entry = entry_of(entries, row, shape);
  }
  // The entry of the row that begins now; looks for the next, where rows are that short.
  DEVICE Transfer::State begin(const Shape& shape, const T* const (&entries)[Transfer::STATES]) {
    const Transfer::State now = entry;
    if (CROWDED) {
      until = shape.steps < ITEMS - until ? until + int(shape.steps) : ITEMS;
      row += REVERSE ? -1 : 1;
      if (until < ITEMS) entry = entry_of(entries, row, shape);
    }
    return now;
  }
};

DEVICE inline Span upsweep_plain(const Source& source, const Items& items) {
  Transfer::Map map = source.map(items, in_time(0));
#pragma unroll
  for (int r = 1; r < ITEMS; ++r) map = Transfer::compose(map, source.map(items, in_time(r)));
  return span_of(map);
}

// One row begins, so that only its own steps matter.
DEVICE inline Span upsweep_begun(const Source& source, const Items& items, const Walk& walk) {
  Transfer::State state = walk.entry;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    const Transfer::State next = Transfer::apply(source.map(items, in_time(r)), state);
    if (r >= walk.until) state = next;
  }
  return span_of(state);
}

DEVICE inline Span upsweep(const Source& source, const Items& items, Walk walk, const Place& place,
                           const Shape& shape, const T* const (&entry)[Transfer::STATES]) {
  if (place.whole && walk.until >= ITEMS) return upsweep_plain(source, items);
  if (place.whole && SEGMENTED && !CROWDED) return upsweep_begun(source, items, walk);
  Transfer::Map map = {};
  Transfer::State state = {};
  int kind = EMPTY;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    const bool begins = SEGMENTED && r == walk.until;
    const Transfer::State begun = begins ? walk.begin(shape, entry) : state;
    if (!place.whole && place.first + in_time(r) >= shape.total) continue;
    const Transfer::Map step = source.map(items, in_time(r));
    map = kind == EMPTY ? step : Transfer::compose(map, step);
    if (SEGMENTED) state = Transfer::apply(step, begun);
    kind = begins ? STATE : kind == EMPTY ? MAP : kind;
  }
  Span span = kind == STATE ? span_of(state) : span_of(map);
  span.kind = kind;
  return span;
}

DEVICE inline void keep(const Transfer::State& state, int r, T (&w)[Transfer::STATES][ITEMS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) w[q][in_time(r)] = state.v[q];
}

// The state after the last item.
DEVICE inline Transfer::State last_of(const T (&w)[Transfer::STATES][ITEMS]) {
  Transfer::State state;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) state.v[q] = w[q][in_time(ITEMS - 1)];
  return state;
}

DEVICE inline void downsweep(const Source& source, const Items& items, Walk walk,
                             const Place& place, const Shape& shape,
                             const T* const (&entry)[Transfer::STATES], Transfer::State state,
                             T (&w)[Transfer::STATES][ITEMS]) {
  if (place.whole) {
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
      if (SEGMENTED && r == walk.until) state = walk.begin(shape, entry);
      state = Transfer::apply(source.map(items, in_time(r)), state);
      keep(state, r, w);
    }
    return;
  }
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    if (SEGMENTED && r == walk.until) state = walk.begin(shape, entry);
    if (place.first + in_time(r) < shape.total)
      state = Transfer::apply(source.map(items, in_time(r)), state);
    keep(state, r, w);
  }
}

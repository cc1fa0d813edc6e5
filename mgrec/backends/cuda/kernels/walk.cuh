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

// Where rows begin among a thread's items; one division a tile instead of one an element.
struct Walk {
  int until;            // items before the next row begins, ITEMS or more when none does
  long long row;        // the row that begins there
  Transfer::State entry;  // its entry, loaded ahead of use
  DEVICE Walk() : until(ITEMS), row(0), entry() {}
  DEVICE Walk(const Place& place, const Shape& shape, const T* const (&entries)[Transfer::STATES]) {
    const long long element = place.first + (REVERSE ? ITEMS - 1 : 0);
    row = element / shape.steps;
    const long long step = element - row * shape.steps;
    const long long done = REVERSE ? shape.steps - 1 - step : step;
    const long long left = done == 0 ? 0 : shape.steps - done;
    until = left < ITEMS ? int(left) : ITEMS;
    if (done != 0) row += REVERSE ? -1 : 1;
    if (until < ITEMS) entry = entry_of(entries, row, shape);
  }
  // The entry of the row that begins now; looks for the next.
  DEVICE Transfer::State begin(const Shape& shape, const T* const (&entries)[Transfer::STATES]) {
    const Transfer::State now = entry;
    until = shape.steps < ITEMS - until ? until + int(shape.steps) : ITEMS;
    row += REVERSE ? -1 : 1;
    if (until < ITEMS) entry = entry_of(entries, row, shape);
    return now;
  }
};

DEVICE inline Span upsweep(const Source& source, const Items& items, Walk walk, const Place& place,
                           const Shape& shape, const T* const (&entry)[Transfer::STATES]) {
  if (place.whole && walk.until >= ITEMS) {
    Transfer::Map map = source.map(items, in_time(0));
#pragma unroll
    for (int r = 1; r < ITEMS; ++r) map = Transfer::compose(map, source.map(items, in_time(r)));
    return span_of(map);
  }
  Transfer::Map map = {};
  Transfer::State state = {};
  int kind = EMPTY;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    if (place.whole || place.first + in_time(r) < shape.total) {
      if (SEGMENTED && r == walk.until) state = walk.begin(shape, entry), kind = STATE;
      const Transfer::Map step = source.map(items, in_time(r));
      map = kind == EMPTY ? step : Transfer::compose(map, step);
      if (SEGMENTED) state = Transfer::apply(step, state);
      if (kind == EMPTY) kind = MAP;
    } else if (SEGMENTED && r == walk.until) {
      walk.begin(shape, entry);
    }
  }
  Span span = kind == STATE ? span_of(state) : span_of(map);
  span.kind = kind;
  return span;
}

DEVICE inline void downsweep(const Source& source, const Items& items, Walk walk,
                             const Place& place, const Shape& shape,
                             const T* const (&entry)[Transfer::STATES], Transfer::State state,
                             T (&w)[Transfer::STATES][ITEMS]) {
  const bool plain = place.whole && walk.until >= ITEMS;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    if (SEGMENTED && r == walk.until) state = walk.begin(shape, entry);
    const Transfer::State next = Transfer::apply(source.map(items, in_time(r)), state);
    // With REVERSE elements past the end come first and leave the state alone.
    if (!REVERSE || plain || place.first + in_time(r) < shape.total) state = next;
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q) w[q][in_time(r)] = state.v[q];
  }
}

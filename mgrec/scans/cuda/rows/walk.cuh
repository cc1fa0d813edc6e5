// One thread's walk over its items: upsweep (their span) and downsweep (their states).
#pragma once
#include "scans/cuda/rows/tile.cuh"

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

DEVICE inline Transfer::State entry_of(const Entry& entry, long long row, const Shape& shape) {
  return row < 0 || row >= shape.rows ? Transfer::State{} : entry.at(row);
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
  Transfer::State entry;  // its carry-in, loaded ahead of use
  DEVICE Walk() : until(ITEMS), row(0), entry() {}
  DEVICE Walk(const Position& position, const Shape& shape, const Entry& entries) {
    const long long done = REVERSE ? shape.steps - 1 - position.step : position.step;
    const long long left = done == 0 ? 0 : shape.steps - done;
    until = left < ITEMS ? int(left) : ITEMS;
    row = position.row + (done == 0 ? 0 : REVERSE ? -1 : 1);
    if (until < ITEMS) entry = entry_of(entries, row, shape);
  }
  // The carry-in of the row that begins now; looks for the next, where rows are that short.
  DEVICE Transfer::State begin(const Shape& shape, const Entry& entries) {
    const Transfer::State now = entry;
    if (CROWDED) {
      until = shape.steps < ITEMS - until ? until + int(shape.steps) : ITEMS;
      row += REVERSE ? -1 : 1;
      if (until < ITEMS) entry = entry_of(entries, row, shape);
    }
    return now;
  }
};

// Runs of a thread's items, side by side, so that one hides another's latency.
constexpr int RUNS = Transfer::QUICK && ITEMS % CHAINS == 0 ? CHAINS : 1, RUN_STEPS = ITEMS / RUNS;

struct Prefixes {
  Transfer::Map v[RUNS > 1 ? RUNS - 1 : 1];  // composed from the first item to a run's last
};

// Rare, and so rolled up: a hot path of 200 KB would not fit the instruction cache.
DEVICE inline __attribute__((noinline)) void upsweep_exactly(const Transfer::Map* steps,
                                                           Transfer::Map* prefixes) {
  Transfer::Map map = steps[0];
#pragma unroll 1
  for (int r = 1; r < ITEMS; ++r) {
    if (r % RUN_STEPS == 0) prefixes[r / RUN_STEPS - 1] = map;
    map = Transfer::compose_exactly(map, steps[r]);
  }
  prefixes[RUNS - 1] = map;
}
DEVICE inline __attribute__((noinline)) void downsweep_exactly(const Transfer::Map* steps,
                                                             Transfer::State* states) {
#pragma unroll 1
  for (int r = 0; r < ITEMS; ++r) states[r + 1] = Transfer::apply_exactly(steps[r], states[r]);
}

DEVICE inline Span upsweep_quick(const Source& source, const Items& items, Prefixes& prefixes) {
  Transfer::Map map[RUNS];
  bool odd = false;
#pragma unroll
  for (int r = 0; r < RUN_STEPS; ++r)
#pragma unroll
    for (int c = 0; c < RUNS; ++c) {
      const Transfer::Map step = source.map(items, in_time(c * RUN_STEPS + r));
      map[c] = r == 0 ? step : Transfer::compose_quickly(map[c], step, odd);
    }
#pragma unroll
  for (int c = 1; c < RUNS; ++c) {
    prefixes.v[c - 1] = map[c - 1];
    map[c] = Transfer::compose_quickly(map[c - 1], map[c], odd);
  }
  if (__builtin_expect(odd, 0)) {
    Transfer::Map steps[ITEMS], exact[RUNS];
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) steps[r] = source.map(items, in_time(r));
    upsweep_exactly(steps, exact);
#pragma unroll
    for (int c = 1; c < RUNS; ++c) prefixes.v[c - 1] = exact[c - 1];
    map[RUNS - 1] = exact[RUNS - 1];
  }
  return span_of(map[RUNS - 1]);
}

DEVICE inline Span upsweep_plain(const Source& source, const Items& items, Prefixes& prefixes) {
  if constexpr (Transfer::QUICK) return upsweep_quick(source, items, prefixes);
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
                           const Shape& shape, const Entry& entry, Prefixes& prefixes) {
  if (place.whole && walk.until >= ITEMS) return upsweep_plain(source, items, prefixes);
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

DEVICE inline Span upsweep(const Source& source, const Items& items, const Walk& walk,
                           const Place& place, const Shape& shape, const Entry& entry) {
  Prefixes unused;
  return upsweep(source, items, walk, place, shape, entry, unused);
}

DEVICE inline void keep(const Transfer::State& state, int r, T (&w)[Transfer::STATES][ITEMS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) w[q][in_time(r)] = state.v[q];
}

DEVICE inline void downsweep_quick(const Source& source, const Items& items,
                                   const Prefixes& prefixes, const Transfer::State& before,
                                   T (&w)[Transfer::STATES][ITEMS]) {
  Transfer::State state[RUNS];
  bool odd = false;
  state[0] = before;
#pragma unroll
  for (int c = 1; c < RUNS; ++c)
    state[c] = Transfer::apply_quickly(prefixes.v[c - 1], before, odd);
#pragma unroll
  for (int r = 0; r < RUN_STEPS; ++r)
#pragma unroll
    for (int c = 0; c < RUNS; ++c) {
      const int k = c * RUN_STEPS + r;
      state[c] = Transfer::apply_quickly(source.map(items, in_time(k)), state[c], odd);
      keep(state[c], k, w);
    }
  if (__builtin_expect(odd, 0)) {
    Transfer::Map steps[ITEMS];
    Transfer::State states[ITEMS + 1];
    states[0] = before;
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) steps[r] = source.map(items, in_time(r));
    downsweep_exactly(steps, states);
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) keep(states[r + 1], r, w);
  }
}

DEVICE inline void downsweep(const Source& source, const Items& items, Walk walk,
                             const Place& place, const Shape& shape, const Entry& entry,
                             const Prefixes& prefixes, Transfer::State state, T (&w)[Transfer::STATES][ITEMS]) {
  if constexpr (Transfer::QUICK)
    if (place.whole && walk.until >= ITEMS)
      return downsweep_quick(source, items, prefixes, state, w);
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

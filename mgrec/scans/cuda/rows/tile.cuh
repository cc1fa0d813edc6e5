// A tile: THREADS × ITEMS consecutive elements of an array seen as one flat sequence of rows.
//
// Thread order is time order: with REVERSE the first thread has the last elements. The part of a
// thread is an odd number of 16-byte vectors, so that blocked access to shared memory has no bank
// conflicts without padding.
#pragma once
#include "scans/cuda/spans.cuh"
#include "engines/cuda/memory/bulk.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int TILE = THREADS * ITEMS;
constexpr int VECTOR = 16 / int(sizeof(Stored));
constexpr int VECTORS = ITEMS / VECTOR;
static_assert(!BULK || !STAGED, "one way or the other");
static_assert(ITEMS % VECTOR == 0 && VECTORS % 2 == 1, "odd number of vectors a thread");
// Streams with another alignment are copied from the multiple of 16 bytes before: one vector more.
// All begin at multiples of 128 bytes: otherwise one row of 2^28 float32 took 1.25 ms, not 1.19.
constexpr int LOADED = TILE + (Source::SHIFTED ? 128 / int(sizeof(Stored)) : 0);

// `total` elements lie in `tiles` tiles; `row` is the first of them.
struct Shape {
  long long rows, steps, total, tiles, row;
};

// The position of a thread's part of a tile; `first` counts elements in memory order.
struct PartPosition {
  long long first;
  bool whole;  // the tile has no element past the end
};

DEVICE inline int part_of_tile() { return REVERSE ? THREADS - 1 - threadIdx.x : threadIdx.x; }
DEVICE inline long long start_of(long long tile, const Shape& shape) {
  return (REVERSE ? shape.tiles - 1 - tile : tile) * TILE;
}
DEVICE inline PartPosition position_of(long long tile, const Shape& shape) {
  const long long start = start_of(tile, shape);
  return {start + part_of_tile() * ITEMS, start + TILE <= shape.total};
}

struct Stages {
  unsigned long long* barriers;
  Stored* loads;   // STAGES × STREAMS × LOADED
  Stored* stores;  // STATES × TILE, of use to a kernel that writes
  DEVICE explicit Stages(unsigned char* memory) {
    static_assert(STAGES <= 16, "the first 128 bytes hold the barriers");
    barriers = reinterpret_cast<unsigned long long*>(memory);
    loads = reinterpret_cast<Stored*>(memory + 128);
    stores = loads + STAGES * Source::STREAMS * LOADED;
  }
  DEVICE Stored* stage(int k) const { return loads + k * Source::STREAMS * LOADED; }
};

// Calls visit(index in a tile) once for every vector, for neighbours in neighbouring threads.
template <class Visit> DEVICE inline void visit_vectors(Visit visit) {
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) visit((k * THREADS + int(threadIdx.x)) * VECTOR);
}

DEVICE inline void copy_vector(Stored* to, const Stored* from) {
  copy_word(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from));
}

// All scanning threads load a whole tile; the last, partial one is read from global memory.
DEVICE inline void request_vectors(const Stages& stages, int k, const Source& source,
                                   long long tile, const Shape& shape) {
  const long long start = start_of(tile, shape);
  if (tile < shape.tiles && start + TILE <= shape.total) {
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p)
      visit_vectors([&](int index) {
        copy_vector(stages.stage(k) + p * LOADED + index, source.stream[p] + start + index);
      });
  }
  copies_commit();
}

// The same by one thread and the copy engine.
DEVICE inline void request(const Stages& stages, int k, const Source& source, long long tile,
                           const Shape& shape) {
  if (!BULK || Source::STREAMS == 0 || tile >= shape.tiles) return;
  const long long start = start_of(tile, shape);
  const bool whole = start + TILE <= shape.total;
  // With REVERSE the partial tile is the first: its barrier must complete a phase all the same.
  barrier_expect(stages.barriers + k, whole ? Source::loaded(TILE, VECTOR) * sizeof(Stored) : 0);
  if (!whole) return;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    if (Source::component(p) == 0)
      bulk_load(stages.stage(k) + p * LOADED,
                source.stream[p] + start * Source::width(p) - Source::shift(p),
                (TILE * Source::width(p) + (Source::shift(p) ? VECTOR : 0)) * sizeof(Stored),
                stages.barriers + k);
}

DEVICE inline void put(T (&items)[ITEMS], int r, const Stored& item) { items[r] = cast<T>(item); }

// The items start `shift` behind `from`.
template <class List>
DEVICE inline void read_blocked(const Stored* from, int shift, List& items) {
  union { uint4 vector; Stored v[VECTOR]; } part;
#pragma unroll
  for (int k = 0; k < VECTORS + int(shift > 0); ++k) {
    part.vector = reinterpret_cast<const uint4*>(from)[k];
#pragma unroll
    for (int r = 0; r < VECTOR; ++r) {
      const int index = k * VECTOR + r - shift;
      if (index >= 0 && index < ITEMS) put(items, index, part.v[r]);
    }
  }
}
// Two columns of an array (steps, width).
template <int WIDTH>
DEVICE inline void read_columns(const Stored* from, T (&first)[ITEMS], T (&second)[ITEMS]) {
  static_assert(WIDTH % 2 == 0 && VECTOR == 2, "two neighbours are a vector");
  union { uint4 vector; Stored v[2]; } pair;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    pair.vector = *reinterpret_cast<const uint4*>(from + r * WIDTH);
    first[r] = cast<T>(pair.v[0]), second[r] = cast<T>(pair.v[1]);
  }
}
DEVICE inline void write_columns(Stored* to, int width, const T (&first)[ITEMS],
                                 const T (&second)[ITEMS]) {
  union { uint4 vector; Stored v[2]; } pair;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    pair.v[0] = cast<Stored>(first[r]), pair.v[1] = cast<Stored>(second[r]);
    *reinterpret_cast<uint4*>(to + r * width) = pair.vector;
  }
}
DEVICE inline void write_blocked(Stored* to, const T (&items)[ITEMS]) {
  union { uint4 vector; Stored v[VECTOR]; } part;
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) {
#pragma unroll
    for (int r = 0; r < VECTOR; ++r) part.v[r] = cast<Stored>(items[k * VECTOR + r]);
    reinterpret_cast<uint4*>(to)[k] = part.vector;
  }
}

// Streams P, P + 1, ...
template <int P> DEVICE inline void read_packed(const Stored* stage, Items& items) {
  if constexpr (P < Source::STREAMS) {
    constexpr int WIDTH = Source::width(P), K = Source::component(P);
    read_columns<WIDTH>(stage + (P - K) * LOADED + part_of_tile() * ITEMS * WIDTH + K, items.v[P],
                        items.v[P + 1]);
    read_packed<P + 2>(stage, items);
  }
}

DEVICE inline void read_items(const Stages& stages, int k, unsigned parity, const Source& source,
                              const PartPosition& position, const Shape& shape, Items& items) {
  if (BULK && position.whole) {
    if (Source::STREAMS > 0) barrier_wait(stages.barriers + k, parity);
    if constexpr (PACKED) read_packed<0>(stages.stage(k), items);
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p)
      if (!PACKED)
        read_blocked(stages.stage(k) + p * LOADED + part_of_tile() * ITEMS, Source::shift(p),
                     items.v[p]);
  } else if (STAGED && position.whole) {
    copies_wait();
    synchronize();
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p)
      read_blocked(stages.stage(k) + p * LOADED + part_of_tile() * ITEMS, 0, items.v[p]);
  } else {
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p)
#pragma unroll
      for (int r = 0; r < ITEMS; ++r)
        if (position.first + r < shape.total)
          put(items.v[p], r, source.stream[p][(position.first + r) * Source::width(p)]);
  }
  items.step = position.first;  // for a single row
  if (VARYING > Source::STREAMS) {
    const long long row = SEGMENTED ? position.first / shape.steps : 0;
    source.complete(items, shape.row + row, position.first - row * shape.steps, 0, shape.rows,
                    shape.steps);
  }
  source.lift_items(items);
}

// Whole tiles are written through shared memory, in one bulk store or in vectors of all threads, others
// element by element. The caller waits until the store before has read shared memory.
DEVICE inline void write_items(const Stages& stages, Stored* const (&results)[Transfer::STATES],
                               long long tile, const PartPosition& position, const Shape& shape,
                               const T (&w)[Transfer::STATES][ITEMS]) {
  const long long start = start_of(tile, shape);
  if ((BULK || STAGED) && position.whole) {
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q) {
      if (!PACKED) write_blocked(stages.stores + q * TILE + part_of_tile() * ITEMS, w[q]);
      else if (q % 2 == 0)
        write_columns(stages.stores + part_of_tile() * ITEMS * Transfer::STATES + q,
                      Transfer::STATES, w[q], w[q + 1 < Transfer::STATES ? q + 1 : q]);
    }
    if (BULK) fence_proxy();
    synchronize();
    if (PACKED) {
      if (threadIdx.x != 0) return;
      bulk_store(results[0] + start * Transfer::STATES, stages.stores,
                 TILE * Transfer::STATES * sizeof(Stored));
      return bulk_commit();
    }
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
      if (STAGED)
        visit_vectors([&](int element) {
          *reinterpret_cast<uint4*>(results[q] + start + element) =
              *reinterpret_cast<const uint4*>(stages.stores + q * TILE + element);
        });
      else if (threadIdx.x == 0)
        bulk_store(results[q] + start, stages.stores + q * TILE, TILE * sizeof(Stored));
    if (BULK && threadIdx.x == 0) bulk_commit();
  } else {
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
#pragma unroll
      for (int r = 0; r < ITEMS; ++r)
        if (position.first + r < shape.total)
          results[q][(position.first + r) * (PACKED ? Transfer::STATES : 1)] =
              cast<Stored>(w[q][r]);
  }
}


// The steps of one thread: upsweep (their span) and downsweep (their states).

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

DEVICE inline Transfer::State carry_in_of(const Entry& carry_ins, long long row,
                                          const Shape& shape) {
  return row < 0 || row >= shape.rows ? Transfer::State{} : carry_ins.at(row);
}

// The position of a thread's first item in time. It moves with the tiles: one division a launch.
struct Position {
  long long row, step;
  DEVICE Position(const PartPosition& position, const Shape& shape) {
    const long long element = position.first + (REVERSE ? ITEMS - 1 : 0);
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

// The starts of rows among a thread's items.
struct Walk {
  int until;                 // items before the next row begins, or ITEMS
  long long row;             // the row that begins there
  Transfer::State carry_in;  // its carry-in, loaded ahead of use
  DEVICE Walk() : until(ITEMS), row(0), carry_in() {}
  DEVICE Walk(const Position& position, const Shape& shape, const Entry& carry_ins) {
    const long long done = REVERSE ? shape.steps - 1 - position.step : position.step;
    const long long left = done == 0 ? 0 : shape.steps - done;
    until = left < ITEMS ? int(left) : ITEMS;
    row = position.row + (done == 0 ? 0 : REVERSE ? -1 : 1);
    if (until < ITEMS) carry_in = carry_in_of(carry_ins, row, shape);
  }
  // The carry-in of the row that begins now; finds the next row, if rows are shorter than ITEMS.
  DEVICE Transfer::State start_row(const Shape& shape, const Entry& carry_ins) {
    const Transfer::State now = carry_in;
    if (CROWDED) {
      until = shape.steps < ITEMS - until ? until + int(shape.steps) : ITEMS;
      row += REVERSE ? -1 : 1;
      if (until < ITEMS) carry_in = carry_in_of(carry_ins, row, shape);
    }
    return now;
  }
};

// Runs of a thread's items, side by side, to hide latency.
constexpr int RUNS = Transfer::QUICK && ITEMS % CHAINS == 0 ? CHAINS : 1, RUN_STEPS = ITEMS / RUNS;

struct Prefixes {
  Transfer::Map v[RUNS > 1 ? RUNS - 1 : 1];  // composed from the first item to a run's last
};

// Rare, and so not unrolled: a hot path of 200 KB would not fit the instruction cache.
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
  bool needs_slow_path = false;
#pragma unroll
  for (int r = 0; r < RUN_STEPS; ++r)
#pragma unroll
    for (int c = 0; c < RUNS; ++c) {
      const Transfer::Map step = source.map(items, in_time(c * RUN_STEPS + r));
      map[c] = r == 0 ? step : Transfer::compose_quickly(map[c], step, needs_slow_path);
    }
#pragma unroll
  for (int c = 1; c < RUNS; ++c) {
    prefixes.v[c - 1] = map[c - 1];
    map[c] = Transfer::compose_quickly(map[c - 1], map[c], needs_slow_path);
  }
  if (__builtin_expect(needs_slow_path, 0)) {
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

// One row begins: only its steps matter.
DEVICE inline Span upsweep_from_start(const Source& source, const Items& items, const Walk& walk) {
  Transfer::State state = walk.carry_in;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    const Transfer::State next = Transfer::apply(source.map(items, in_time(r)), state);
    if (r >= walk.until) state = next;
  }
  return span_of(state);
}

DEVICE inline Span upsweep(const Source& source, const Items& items, Walk walk,
                           const PartPosition& position, const Shape& shape, const Entry& carry_ins,
                           Prefixes& prefixes) {
  if (position.whole && walk.until >= ITEMS) return upsweep_plain(source, items, prefixes);
  if (position.whole && SEGMENTED && !CROWDED) return upsweep_from_start(source, items, walk);
  Transfer::Map map = {};
  Transfer::State state = {};
  int kind = EMPTY;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    const bool is_row_start = SEGMENTED && r == walk.until;
    const Transfer::State before = is_row_start ? walk.start_row(shape, carry_ins) : state;
    if (!position.whole && position.first + in_time(r) >= shape.total) continue;
    const Transfer::Map step = source.map(items, in_time(r));
    map = kind == EMPTY ? step : Transfer::compose(map, step);
    if (SEGMENTED) state = Transfer::apply(step, before);
    kind = is_row_start ? STATE : kind == EMPTY ? MAP : kind;
  }
  Span span = kind == STATE ? span_of(state) : span_of(map);
  span.kind = kind;
  return span;
}

DEVICE inline Span upsweep(const Source& source, const Items& items, const Walk& walk,
                           const PartPosition& position, const Shape& shape,
                           const Entry& carry_ins) {
  Prefixes unused;
  return upsweep(source, items, walk, position, shape, carry_ins, unused);
}

DEVICE inline void store_state(const Transfer::State& state, int r,
                               T (&w)[Transfer::STATES][ITEMS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) w[q][in_time(r)] = state.v[q];
}

DEVICE inline void downsweep_quick(const Source& source, const Items& items,
                                   const Prefixes& prefixes, const Transfer::State& before,
                                   T (&w)[Transfer::STATES][ITEMS]) {
  Transfer::State state[RUNS];
  bool needs_slow_path = false;
  state[0] = before;
#pragma unroll
  for (int c = 1; c < RUNS; ++c)
    state[c] = Transfer::apply_quickly(prefixes.v[c - 1], before, needs_slow_path);
#pragma unroll
  for (int r = 0; r < RUN_STEPS; ++r)
#pragma unroll
    for (int c = 0; c < RUNS; ++c) {
      const int k = c * RUN_STEPS + r;
      state[c] = Transfer::apply_quickly(source.map(items, in_time(k)), state[c], needs_slow_path);
      store_state(state[c], k, w);
    }
  if (__builtin_expect(needs_slow_path, 0)) {
    Transfer::Map steps[ITEMS];
    Transfer::State states[ITEMS + 1];
    states[0] = before;
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) steps[r] = source.map(items, in_time(r));
    downsweep_exactly(steps, states);
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) store_state(states[r + 1], r, w);
  }
}

DEVICE inline void downsweep(const Source& source, const Items& items, Walk walk,
                             const PartPosition& position, const Shape& shape,
                             const Entry& carry_ins, const Prefixes& prefixes,
                             Transfer::State state, T (&w)[Transfer::STATES][ITEMS]) {
  if constexpr (Transfer::QUICK)
    if (position.whole && walk.until >= ITEMS)
      return downsweep_quick(source, items, prefixes, state, w);
  if (position.whole) {
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
      if (SEGMENTED && r == walk.until) state = walk.start_row(shape, carry_ins);
      state = Transfer::apply(source.map(items, in_time(r)), state);
      store_state(state, r, w);
    }
    return;
  }
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) {
    if (SEGMENTED && r == walk.until) state = walk.start_row(shape, carry_ins);
    if (position.first + in_time(r) < shape.total)
      state = Transfer::apply(source.map(items, in_time(r)), state);
    store_state(state, r, w);
  }
}

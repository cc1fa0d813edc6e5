// Few columns side by side, as samples of a few channels in time: tiles of whole steps.
//
// A tile is one run of memory, STEPS steps of all channels, and moves by bulk copies. In shared
// memory it stays as it is until its states are written: a thread reads ITEMS consecutive steps of
// one channel from there twice, neighbours neighbouring channels. To keep them in registers between
// the two would leave too few for the warps that look ahead.
#pragma once
#include "scope/block.cuh"
#include "memory/bulk.cuh"

constexpr int VECTOR = 16 / int(sizeof(T));
constexpr int PARTS = THREADS / CHANNELS / VECTOR * VECTOR;  // of a tile, one a thread each channel
constexpr int STEPS = PARTS * ITEMS, TILE = STEPS * CHANNELS;
static_assert(TILE * sizeof(T) % 16 == 0, "bulk copies are of whole 16 bytes");
// Streams that begin elsewhere are copied from the multiple of 16 bytes before on: one vector more.
constexpr int LOADED = TILE + (Source::SHIFTED ? VECTOR : 0);

// Each outer part is `tiles` tiles of CHANNELS columns.
struct Channels {
  long long outers, steps, tiles;
};

DEVICE inline int in_time(int r) { return REVERSE ? ITEMS - 1 - r : r; }

// A tile among those of all outer parts, in time order.
struct Tile {
  long long number, outer, first;  // its first step in memory
  int steps;                       // that exist
  DEVICE Tile(long long number, const Channels& shape) : number(number) {
    const unsigned own = unsigned(number) / unsigned(shape.tiles);  // 64 bits take five times as long
    const unsigned turn = unsigned(number) - own * unsigned(shape.tiles);
    outer = own;
    first = (long long)(REVERSE ? unsigned(shape.tiles) - 1 - turn : turn) * STEPS;
    steps = shape.steps - first < STEPS ? int(shape.steps - first) : STEPS;
  }
  DEVICE bool is_whole() const { return steps == STEPS; }
  DEVICE long long element(const Channels& shape) const {
    return (outer * shape.steps + first) * CHANNELS;
  }
};

// A thread's part of every tile; the last threads may have none.
struct Part {
  int channel, place;  // `place` among the channel's parts, in time order
  bool exists;
  DEVICE Part() {
    place = int(threadIdx.x) / CHANNELS;
    channel = int(threadIdx.x) % CHANNELS;
    exists = place < PARTS;
  }
  DEVICE int first() const { return (REVERSE ? PARTS - 1 - place : place) * ITEMS; }
  DEVICE int element(int r) const { return (first() + r) * CHANNELS + channel; }
  DEVICE bool has(int r, const Tile& tile) const { return first() + r < tile.steps; }
};

struct Stages {
  unsigned long long* barriers;
  T* loads;   // STAGES × STREAMS × LOADED
  T* stores;  // STATES × TILE
  DEVICE explicit Stages(unsigned char* memory) {
    barriers = reinterpret_cast<unsigned long long*>(memory);
    loads = reinterpret_cast<T*>(memory + 128);
    stores = loads + STAGES * Source::STREAMS * LOADED;
  }
  DEVICE T* stage(int k) const { return loads + k * Source::STREAMS * LOADED; }
};

DEVICE inline void request(const Stages& stages, int k, const Source& source, long long number,
                           const Channels& shape) {
  if (!BULK || Source::STREAMS == 0 || number >= shape.outers * shape.tiles) return;
  const Tile tile(number, shape);
  // With REVERSE a partial tile is the first: its barrier must complete a phase all the same.
  barrier_expect(stages.barriers + k,
                 tile.is_whole() ? Source::loaded(TILE, VECTOR) * unsigned(sizeof(T)) : 0);
  if (!tile.is_whole()) return;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    bulk_load(stages.stage(k) + p * LOADED,
              source.stream[p] + tile.element(shape) - Source::shift(p),
              (TILE + (Source::shift(p) ? VECTOR : 0)) * sizeof(T), stages.barriers + k);
}

// Visits a thread's steps in memory order: visit(r, its element in the tile). Where all steps are
// WHOLE no address but the first is computed: to ask of each step took ten times its arithmetic.
template <bool WHOLE, class Visit>
DEVICE inline void visit_items(const Tile& tile, const Part& part, Visit visit) {
  const int first = part.element(0);
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (WHOLE || part.has(r, tile)) visit(r, first + r * CHANNELS);
}

template <bool WHOLE>
DEVICE inline void read_items(const Stages& stages, int k, const Source& source, const Tile& tile,
                              const Part& part, const Channels& shape, Items& items) {
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    if (WHOLE && BULK) {
      const T* const from = stages.stage(k) + p * LOADED + Source::shift(p);
      visit_items<WHOLE>(tile, part, [&](int r, int e) { items.v[p][r] = from[e]; });
    } else {
      const T* const from = source.stream[p] + tile.element(shape);
      visit_items<WHOLE>(tile, part, [&](int r, int e) { items.v[p][r] = from[e]; });
    }
  items.step = tile.first + part.first();
  if (VARYING > Source::STREAMS)
    source.complete(items, tile.outer, items.step, part.channel, shape.outers, shape.steps);
  source.lift_items(items);
}

// Whole tiles go to shared memory and leave it in one bulk store, others element by element.
template <bool WHOLE>
DEVICE inline void write_items(const Stages& stages, T* const (&results)[Transfer::STATES],
                               const Tile& tile, const Part& part, const Channels& shape,
                               const T (&w)[Transfer::STATES][ITEMS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    if (WHOLE && BULK) {
      T* const to = stages.stores + q * TILE;
      visit_items<WHOLE>(tile, part, [&](int r, int e) { to[e] = w[q][r]; });
    } else {
      T* const to = results[q] + tile.element(shape);
      visit_items<WHOLE>(tile, part, [&](int r, int e) { to[e] = w[q][r]; });
    }
}

DEVICE inline void store(const Stages& stages, T* const (&results)[Transfer::STATES],
                         const Tile& tile, const Channels& shape) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    bulk_store(results[q] + tile.element(shape), stages.stores + q * TILE, TILE * sizeof(T));
  bulk_commit();
}

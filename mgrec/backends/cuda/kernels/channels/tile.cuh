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
    outer = number / shape.tiles;
    const long long turn = number - outer * shape.tiles;
    first = (REVERSE ? shape.tiles - 1 - turn : turn) * STEPS;
    steps = shape.steps - first < STEPS ? int(shape.steps - first) : STEPS;
  }
  DEVICE bool is_copied() const { return BULK && steps == STEPS; }  // in bulk
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
  DEVICE bool has(int r, const Tile& tile) const { return exists && first() + r < tile.steps; }
};

struct Stages {
  unsigned long long* barriers;
  T* loads;   // STAGES × STREAMS × TILE
  T* stores;  // STATES × TILE
  DEVICE explicit Stages(unsigned char* memory) {
    barriers = reinterpret_cast<unsigned long long*>(memory);
    loads = reinterpret_cast<T*>(memory + 128);
    stores = loads + STAGES * Source::STREAMS * TILE;
  }
  DEVICE T* stage(int k) const { return loads + k * Source::STREAMS * TILE; }
};

DEVICE inline void request(const Stages& stages, int k, const Source& source, long long number,
                           const Channels& shape) {
  if (!BULK || Source::STREAMS == 0 || number >= shape.outers * shape.tiles) return;
  const Tile tile(number, shape);
  // With REVERSE a partial tile is the first: its barrier must complete a phase all the same.
  barrier_expect(stages.barriers + k,
                 tile.is_copied() ? Source::STREAMS * TILE * unsigned(sizeof(T)) : 0);
  if (!tile.is_copied()) return;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    bulk_load(stages.stage(k) + p * TILE, source.stream[p] + tile.element(shape),
              TILE * sizeof(T), stages.barriers + k);
}

DEVICE inline void read_items(const Stages& stages, int k, const Source& source, const Tile& tile,
                              const Part& part, const Channels& shape, Items& items) {
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    if (tile.is_copied()) {
      const T* const from = stages.stage(k) + p * TILE;
#pragma unroll
      for (int r = 0; r < ITEMS; ++r) items.v[p][r] = from[part.exists ? part.element(r) : 0];
    } else {
      const T* const from = source.stream[p] + tile.element(shape);
#pragma unroll
      for (int r = 0; r < ITEMS; ++r)
        if (part.has(r, tile)) items.v[p][r] = from[part.element(r)];
    }
  items.step = tile.first + part.first();
  if (VARYING > Source::STREAMS && part.exists)
    source.complete(items, tile.outer, items.step, part.channel, shape.outers, shape.steps);
  source.lift_items(items);
}

// Whole tiles leave through shared memory, in one bulk store, others element by element.
DEVICE inline void write_items(const Stages& stages, T* const (&results)[Transfer::STATES],
                               const Tile& tile, const Part& part, const Channels& shape,
                               const T (&w)[Transfer::STATES][ITEMS]) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) {
    T* const to = tile.is_copied() ? stages.stores + q * TILE : results[q] + tile.element(shape);
#pragma unroll
    for (int r = 0; r < ITEMS; ++r)
      if (part.has(r, tile)) to[part.element(r)] = w[q][r];
  }
  if (BULK) fence_proxy();
  synchronize();
  if (!tile.is_copied() || threadIdx.x > 0) return;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    bulk_store(results[q] + tile.element(shape), stages.stores + q * TILE, TILE * sizeof(T));
  bulk_commit();
}

// A tile: THREADS × ITEMS consecutive elements of an array seen as one flat sequence of rows.
//
// Thread order is time order: with REVERSE the first thread holds the last elements. A thread's
// part is an odd number of 16-byte vectors, so that blocked access to shared memory has no bank
// conflicts although nothing is padded.
#pragma once
#include "scans/cuda/scope/block.cuh"
#include "engines/cuda/memory/bulk.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int TILE = THREADS * ITEMS;
constexpr int VECTOR = 16 / int(sizeof(T));
constexpr int VECTORS = ITEMS / VECTOR;
static_assert(!BULK || !STAGED, "one way or the other");
static_assert(ITEMS % VECTOR == 0 && VECTORS % 2 == 1, "odd number of vectors a thread");
// Streams that begin elsewhere are copied from the multiple of 16 bytes before on: one vector more.
constexpr int LOADED = TILE + (Source::SHIFTED ? VECTOR : 0);

// `total` elements lie in `tiles` tiles; `row` is the first of them.
struct Shape {
  long long rows, steps, total, tiles, row;
};

// Where a thread's part of a tile lies; `first` counts elements in memory order.
struct Place {
  long long first;
  bool whole;  // the tile has no element past the end
};

DEVICE inline int part_of_tile() { return REVERSE ? THREADS - 1 - threadIdx.x : threadIdx.x; }
DEVICE inline long long start_of(long long tile, const Shape& shape) {
  return (REVERSE ? shape.tiles - 1 - tile : tile) * TILE;
}
DEVICE inline Place place_of(long long tile, const Shape& shape) {
  const long long start = start_of(tile, shape);
  return {start + part_of_tile() * ITEMS, start + TILE <= shape.total};
}

struct Stages {
  unsigned long long* barriers;
  T* loads;   // STAGES × STREAMS × LOADED
  T* stores;  // STATES × TILE, of use to a kernel that writes
  DEVICE explicit Stages(unsigned char* memory) {
    static_assert(STAGES <= 16, "the first 128 bytes hold the barriers");
    barriers = reinterpret_cast<unsigned long long*>(memory);
    loads = reinterpret_cast<T*>(memory + 128);
    stores = loads + STAGES * Source::STREAMS * LOADED;
  }
  DEVICE T* stage(int k) const { return loads + k * Source::STREAMS * LOADED; }
};

// visit(place in a tile): every vector of a tile is visited once, neighbours by neighbouring threads.
template <class Visit> DEVICE inline void visit_vectors(Visit visit) {
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) visit((k * THREADS + int(threadIdx.x)) * VECTOR);
}

DEVICE inline void copy_vector(T* to, const T* from) {
  copy_word(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from));
}

// All scanning threads ask for a whole tile; the last, partial one is read from global memory.
DEVICE inline void request_vectors(const Stages& stages, int k, const Source& source,
                                   long long tile, const Shape& shape) {
  const long long start = start_of(tile, shape);
  if (tile < shape.tiles && start + TILE <= shape.total) {
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p)
      visit_vectors([&](int place) {
        copy_vector(stages.stage(k) + p * LOADED + place, source.stream[p] + start + place);
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
  barrier_expect(stages.barriers + k, whole ? Source::loaded(TILE, VECTOR) * sizeof(T) : 0);
  if (!whole) return;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
    bulk_load(stages.stage(k) + p * LOADED, source.stream[p] + start - Source::shift(p),
              (TILE + (Source::shift(p) ? VECTOR : 0)) * sizeof(T), stages.barriers + k);
}

// The items lie `shift` behind `from`.
DEVICE inline void read_blocked(const T* from, int shift, T (&items)[ITEMS]) {
  union { uint4 vector; T v[VECTOR]; } part;
#pragma unroll
  for (int k = 0; k < VECTORS + int(shift > 0); ++k) {
    part.vector = reinterpret_cast<const uint4*>(from)[k];
#pragma unroll
    for (int r = 0; r < VECTOR; ++r) {
      const int place = k * VECTOR + r - shift;
      if (place >= 0 && place < ITEMS) items[place] = part.v[r];
    }
  }
}
DEVICE inline void write_blocked(T* to, const T (&items)[ITEMS]) {
  union { uint4 vector; T v[VECTOR]; } part;
#pragma unroll
  for (int k = 0; k < VECTORS; ++k) {
#pragma unroll
    for (int r = 0; r < VECTOR; ++r) part.v[r] = items[k * VECTOR + r];
    reinterpret_cast<uint4*>(to)[k] = part.vector;
  }
}

DEVICE inline void read_items(const Stages& stages, int k, unsigned parity, const Source& source,
                              const Place& place, const Shape& shape, Items& items) {
  if (BULK && place.whole) {
    if (Source::STREAMS > 0) barrier_wait(stages.barriers + k, parity);
#pragma unroll
    for (int p = 0; p < Source::STREAMS; ++p)
      read_blocked(stages.stage(k) + p * LOADED + part_of_tile() * ITEMS, Source::shift(p),
                   items.v[p]);
  } else if (STAGED && place.whole) {
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
        if (place.first + r < shape.total) items.v[p][r] = source.stream[p][place.first + r];
  }
  items.step = place.first;  // of use where there is one row
  if (VARYING > Source::STREAMS) {
    const long long row = SEGMENTED ? place.first / shape.steps : 0;
    source.complete(items, shape.row + row, place.first - row * shape.steps, 0, shape.rows,
                    shape.steps);
  }
  source.lift_items(items);
}

// Whole tiles leave through shared memory, in one bulk store or by all threads' vectors, others
// element by element. The caller has made sure that the store before is through with shared memory.
DEVICE inline void write_items(const Stages& stages, T* const (&results)[Transfer::STATES],
                               long long tile, const Place& place, const Shape& shape,
                               const T (&w)[Transfer::STATES][ITEMS]) {
  const long long start = start_of(tile, shape);
  if ((BULK || STAGED) && place.whole) {
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
      write_blocked(stages.stores + q * TILE + part_of_tile() * ITEMS, w[q]);
    if (BULK) fence_proxy();
    synchronize();
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
      if (STAGED)
        visit_vectors([&](int element) {
          *reinterpret_cast<uint4*>(results[q] + start + element) =
              *reinterpret_cast<const uint4*>(stages.stores + q * TILE + element);
        });
      else if (threadIdx.x == 0)
        bulk_store(results[q] + start, stages.stores + q * TILE, TILE * sizeof(T));
    if (BULK && threadIdx.x == 0) bulk_commit();
  } else {
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q)
#pragma unroll
      for (int r = 0; r < ITEMS; ++r)
        if (place.first + r < shape.total) results[q][place.first + r] = w[q][r];
  }
}

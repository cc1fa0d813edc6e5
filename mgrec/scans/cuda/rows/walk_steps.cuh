// Determine many contiguous rows by the plain loop: a lane for each row, a warp for 32 rows.
//
// Pieces of ITEMS steps of 32 rows pass through shared memory. There a row takes an odd number of
// 16-byte vectors, so that no access has bank conflicts: lanes copy along the rows, read and write
// across them.
#pragma once
#include "engines/cuda/memory/copies.cuh"

static_assert(THREADS == 32 && STAGES > 0, "a block is one warp");
constexpr int VECTOR = 16 / int(sizeof(T));
constexpr int VECTORS = ITEMS / VECTOR, PITCH = VECTORS + 1 - VECTORS % 2;
static_assert(ITEMS % VECTOR == 0, "whole vectors");
constexpr int AREA = 32 * PITCH;  // vectors of a piece

struct Rows {
  long long count, steps, groups, pieces;  // groups of 32 rows, pieces along the steps
};

struct Cursor {
  long long group, piece, first;  // its first step in memory, negative if the piece is partial
  DEVICE void locate(const Rows& shape) {
    first = REVERSE ? shape.steps - (piece + 1) * ITEMS : piece * ITEMS;
  }
  DEVICE void advance(const Rows& shape) {
    if (++piece == shape.pieces) piece = 0, group += gridDim.x;
    locate(shape);
  }
  DEVICE bool ends(const Rows& shape) const { return group >= shape.groups; }
};

// Calls visit(element in memory, index in shared memory), both in words, for the existing words of
// a piece, along each row.
template <class Word, class Visit>
DEVICE inline void visit_words(const Cursor& at, const Rows& shape, Visit visit) {
  constexpr int LENGTH = sizeof(Word) / sizeof(T), COUNT = ITEMS / LENGTH;
  constexpr int STRIDE = PITCH * VECTOR / LENGTH;
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
    const int index = k * 32 + threadIdx.x, row = index / COUNT, word = index % COUNT;
    const long long step = at.first + word * LENGTH, number = at.group * 32 + row;
    if (number < shape.count && step >= 0 && step < shape.steps)
      visit((number * shape.steps + step) / LENGTH, row * STRIDE + word);
  }
}

template <class Word>
DEVICE inline void request_words(uint4* stage, const Source& source, const Cursor& at,
                                 const Rows& shape) {
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p) {
    Word* const to = reinterpret_cast<Word*>(stage + p * AREA);
    const Word* const from = reinterpret_cast<const Word*>(source.stream[p]);
    visit_words<Word>(at, shape, [=](long long element, int index) {
      copy_word(to + index, from + element);
    });
  }
}

DEVICE inline void request(uint4* stage, const Source& source, const Cursor& at,
                           const Rows& shape) {
  if (!at.ends(shape)) {
    if (BULK) request_words<uint4>(stage, source, at, shape);
    else request_words<T>(stage, source, at, shape);
  }
  copies_commit();
}

template <class Word>
DEVICE inline void store_words(const uint4* stores, T* const (&results)[Transfer::STATES],
                               const Cursor& at, const Rows& shape) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) {
    const Word* const from = reinterpret_cast<const Word*>(stores + q * AREA);
    Word* const to = reinterpret_cast<Word*>(results[q]);
    visit_words<Word>(at, shape, [=](long long element, int index) { to[element] = from[index]; });
  }
}

union Part {
  uint4 vector;
  T v[VECTOR];
  DEVICE Part() {}
};

DEVICE inline void read_items(const uint4* stage, const Source& source, const Cursor& at,
                              const Rows& shape, Items& items) {
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
      Part part;
      part.vector = stage[p * AREA + threadIdx.x * PITCH + k];
#pragma unroll
      for (int r = 0; r < VECTOR; ++r) items.v[p][k * VECTOR + r] = part.v[r];
    }
  items.step = at.first;
  const long long row = at.group * 32 + threadIdx.x;
  if (VARYING > Source::STREAMS && row < shape.count)
    source.complete(items, row, at.first, 0, shape.count, shape.steps);
  source.lift_items(items);
}

// The plain loop; results go to shared memory, missing steps do not change the state.
DEVICE inline void walk(uint4* stores, const Source& source, const Items& items, const Cursor& at,
                        const Rows& shape, Transfer::State& state) {
  const bool whole = at.first >= 0 && at.first + ITEMS <= shape.steps;
  T w[Transfer::STATES][ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int r = REVERSE ? ITEMS - 1 - k : k;
    if (whole || (at.first + r >= 0 && at.first + r < shape.steps))
      state = Transfer::apply(source.map(items, r), state);
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q) w[q][r] = state.v[q];
  }
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
      Part part;
#pragma unroll
      for (int r = 0; r < VECTOR; ++r) part.v[r] = w[q][k * VECTOR + r];
      stores[q * AREA + threadIdx.x * PITCH + k] = part.vector;
    }
}

DEVICE void walk_rows(const Source& source, const Entry& carry_ins,
                      T* const (&results)[Transfer::STATES], const Rows& shape) {
  extern __shared__ __align__(16) unsigned char memory[];
  uint4* const stores = reinterpret_cast<uint4*>(memory);
  uint4* const stages = stores + Transfer::STATES * AREA;
  Cursor at = {blockIdx.x, 0, 0};
  at.locate(shape);
  Cursor later = at;
  for (int k = 0; k < STAGES; ++k, later.advance(shape))
    request(stages + k * Source::STREAMS * AREA, source, later, shape);
  Transfer::State state = {};
  for (int stage_number = 0; !at.ends(shape); at.advance(shape)) {
    uint4* const stage = stages + stage_number * Source::STREAMS * AREA;
    const long long row = at.group * 32 + threadIdx.x;
    if (at.piece == 0 && row < shape.count) state = carry_ins.at(row);
    copies_wait();
    __syncwarp();
    Items items;
    read_items(stage, source, at, shape, items);
    __syncwarp();
    request(stage, source, later, shape);
    later.advance(shape);
    walk(stores, source, items, at, shape, state);
    __syncwarp();
    if (BULK) store_words<uint4>(stores, results, at, shape);
    else store_words<T>(stores, results, at, shape);
    if (++stage_number == STAGES) stage_number = 0;
  }
}

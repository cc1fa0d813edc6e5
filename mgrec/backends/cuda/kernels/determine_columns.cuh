// Determine rows along a slow axis in one pass, without a transposed copy.
//
// Where columns are too few for the GPU, a team of blocks shares them: step tiles are dealt round
// robin in the team, with the look-ahead of contiguous rows, a lane for each column.
#pragma once
#include "columns.cuh"
#include "guard.cuh"

constexpr int LOOKAHEAD = TEAM > 1 ? 32 : 0;  // threads

DEVICE inline void advance(Cursor& at, const Columns& shape) {
  at.tile += TEAM;
  if (at.tile >= shape.tiles) {
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

// Every lane joins the spans of its own column in tiles begin..end-1.
DEVICE inline Span fold_column(const Unit* descriptors, long long begin, long long end,
                               unsigned epoch) {
  const int lane = threadIdx.x % 32;
  Span run[TEAM];
  bool complete;
  do {
    complete = true;
#pragma unroll
    for (int k = 0; k < TEAM; ++k) {
      run[k] = empty_span();
      if (begin + k < end)
        complete = received(descriptors, (begin + k) * 32 + lane, epoch, run[k]) && complete;
    }
  } while (!__all_sync(ALL, complete));
  Span span = run[0];
#pragma unroll
  for (int k = 1; k < TEAM; ++k) span = join(span, run[k]);
  return span;
}

// Spine of a team: the look-ahead warp finds the states at the beginning of the block's tiles.
DEVICE inline void resolve(Transfer::State (&tile_entry)[RING][32],
                           const T* const (&entry)[Transfer::STATES], const Unit* descriptors,
                           Cursor at, const Columns& shape, unsigned epoch) {
  Transfer::State state = {};
  long long last = 0;
  for (int turn = 0; !at.ends(shape); ++turn, advance(at, shape)) {
    if (at.tile == blockIdx.x % TEAM) state = entry_of(entry, at.column, shape), last = 0;
    await_published(turn);
    const long long tiles = at.group * shape.tiles;
    state = after(fold_column(descriptors, tiles + last, tiles + at.tile, epoch), state);
    last = at.tile;
    tile_entry[turn % RING][threadIdx.x % 32] = state;
    __syncwarp();
    announce_resolved(turn);
  }
}

DEVICE void determine_columns(const Source& source, const T* const (&entry)[Transfer::STATES],
                              T* const (&results)[Transfer::STATES], Unit* descriptors,
                              Marks& marks, const Columns& shape, unsigned epoch) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* const slots = reinterpret_cast<T*>(memory);
  __shared__ Span totals[2][WARPS][32];
  __shared__ Transfer::State tile_entry[RING][32];
  const int lane = threadIdx.x % 32;
  const long long member = blockIdx.x % TEAM;
  Cursor next = {blockIdx.x / TEAM, member, 0, column_of(blockIdx.x / TEAM, shape), false};
  next.place(shape);
  if (TEAM > 1 && threadIdx.x >= THREADS)
    return resolve(tile_entry, entry, descriptors, next, shape, epoch);

  Cursor at = {shape.groups, 0, 0, {}, false}, later = next;
  for (int k = 0; k < STAGES; ++k, advance(later, shape))
    request(slots, k, source, later, shape);
  Items items, next_items;
  Joins joins, next_joins;
  Transfer::State state = {};  // of a team of one: at the beginning of the tile
  int stage = 0;
  for (int turn = -1; turn < 0 || !at.ends(shape); ++turn) {
    if (!next.ends(shape)) {  // upsweep of the next tile
      read_items(slots, stage, source, next, shape, next_items);
      next_joins = join_warps(upsweep(source, next_items, next, shape), totals[(turn + 1) % 2]);
      if (TEAM > 1 && threadIdx.x >= THREADS - 32) {
        publish(descriptors, (next.group * shape.tiles + next.tile) * 32 + lane, next_joins.total,
                epoch);
        __syncwarp();
        announce_published(turn + 1);
      }
      request(slots, stage, source, later, shape);
      advance(later, shape);
      if (++stage == STAGES) stage = 0;
    }
    if (turn >= 0) {  // downsweep
      if (TEAM > 1) await_resolved(turn);
      if (TEAM > 1) state = tile_entry[turn % RING][lane];
      else if (at.tile == 0) state = entry_of(entry, at.column, shape);
      const Transfer::State begin = after(joins.before, state);
      if (GUARDED && at.column.exists && (!is_finite(begin) || is_doubtful(joins.before, state)))
        mark(marks, at.tile, epoch);
      downsweep(source, items, at, shape, begin, results);
      if (GUARDED && at.column.exists && is_doubtful(joins.total, state))
        mark(marks, at.tile, epoch);
      if (TEAM == 1) state = after(joins.total, state);
    }
    at = next;
    if (!next.ends(shape)) advance(next, shape);
    items = next_items;
    joins = next_joins;
  }
}

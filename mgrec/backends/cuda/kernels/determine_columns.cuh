// Determine rows along a slow axis in one pass, without a transposed copy.
//
// Where columns are too few for the GPU, a team of blocks shares them: step tiles are dealt round
// robin in the team, with the look-ahead of contiguous rows, a lane for each column. The state goes
// through the tiles' spans one by one, in a team as in a single block: same bits.
#pragma once
#include "columns.cuh"
#include "guard.cuh"

constexpr int LOOKAHEAD = TEAM > 1 ? 32 : 0;  // threads

// Published spans of a team's last TURNS turns. In every turn a block waits for the spans of the
// others' last tiles, needed or not, so that nobody is five turns ahead of another.
constexpr int TURNS = 8;

struct Ring {
  Unit* descriptors;
  unsigned epoch;
  DEVICE Ring(Unit* space, unsigned epoch)
      : descriptors(space + blockIdx.x / TEAM * (TURNS * TEAM * 32ll * UNITS)), epoch(epoch) {}
  DEVICE long long place(int turn, int member) const {
    return (turn % TURNS * TEAM + member) * 32ll + threadIdx.x % 32;
  }
  DEVICE unsigned tag(int turn) const { return epoch * 4 + turn / TURNS % 4; }
};

// The state of every lane's column after the TEAM tiles before this block's tile of `turn`, of
// which those from `begin` on are of the same columns.
DEVICE inline Transfer::State fold_column(const Ring& ring, int turn, int begin,
                                          Transfer::State state) {
  const int member = blockIdx.x % TEAM;
  Span run[TEAM];
  bool complete;
  do {
    complete = true;
#pragma unroll
    for (int k = 0; k < TEAM; ++k) {
      const int other = (member + k) % TEAM, then = turn - (member + k < TEAM);
      if (then >= 0)
        complete = received(ring.descriptors, ring.place(then, other), ring.tag(then), run[k]) &&
                   complete;
    }
  } while (!__all_sync(ALL, complete));
#pragma unroll
  for (int k = 0; k < TEAM; ++k)
    if (k >= begin) state = after(run[k], state);
  return state;
}

// Spine of a team: the look-ahead warp finds the states at the beginning of the block's tiles.
DEVICE inline void resolve(Transfer::State (&tile_entry)[RING][32],
                           const T* const (&entry)[Transfer::STATES], const Ring& ring, Cursor at,
                           const Columns& shape) {
  const int member = blockIdx.x % TEAM;
  Transfer::State state = {};
  for (int turn = 0; !at.ends(shape); ++turn, advance(at, shape)) {
    const bool is_first = at.tile == member;
    if (is_first) state = entry_of(entry, at.column, shape);
    await_published(turn);
    state = fold_column(ring, turn, is_first ? TEAM - member : 0, state);
    tile_entry[turn % RING][threadIdx.x % 32] = state;
    __syncwarp();
    announce_resolved(turn);
  }
}

// Marks a run of steps from its k-th on, in time, and the first step of what follows.
DEVICE inline void mark_run(const Ledger& ledger, const Cursor& at, int k, const Columns& shape) {
  const long long begin = (at.tile * WARPS + threadIdx.x / 32) * ITEMS, last = begin + ITEMS;
  if (begin >= shape.steps) return;
  const long long time = begin + k < shape.steps ? begin + k : shape.steps - 1;
  ledger.enter(at.group, time, last < shape.steps ? last : shape.steps - 1);
}

DEVICE void determine_columns(const Source& source, const T* const (&entry)[Transfer::STATES],
                              T* const (&results)[Transfer::STATES], Unit* descriptors,
                              const Ledger& ledger, const Columns& shape, unsigned epoch) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* const slots = reinterpret_cast<T*>(memory);
  const long long member = blockIdx.x % TEAM, group = blockIdx.x / TEAM;
  Cursor next = {group, member, 0, column_of(group, shape), false};
  next.place(shape);
  __shared__ Span totals[2][WARPS][32];
  __shared__ Transfer::State tile_entry[RING][32];
  const Ring ring(descriptors, epoch);
  const int lane = threadIdx.x % 32;
  if (TEAM > 1 && threadIdx.x >= THREADS) return resolve(tile_entry, entry, ring, next, shape);
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
        publish(ring.descriptors, ring.place(turn + 1, member), next_joins.total,
                ring.tag(turn + 1));
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
        mark_run(ledger, at, 0, shape);
      const Transfer::State end = downsweep(source, items, at, shape, begin, results);
      if (GUARDED && at.column.exists && (!is_finite(end) || is_doubtful(joins.total, state)))
        mark_run(ledger, at, ITEMS - 1, shape);
      if (TEAM == 1) state = after(joins.total, state);
    }
    at = next;
    if (!next.ends(shape)) advance(next, shape);
    items = next_items;
    joins = next_joins;
  }
}

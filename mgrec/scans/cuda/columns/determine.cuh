// Determine rows along a slow axis in one pass, without a transposed copy.
//
// If columns are too few for the GPU, a team of blocks shares them: step tiles are assigned round robin
// in the team, with the look-ahead of contiguous rows, a lane for each column. The state passes through
// the spans of tiles one by one, in a team as in a single block: the bits are the same.
#pragma once
#include "scans/cuda/columns/columns.cuh"
#include "scans/cuda/trust/guard.cuh"

constexpr int LOOKAHEAD = TEAM > 1 ? 32 : 0;  // threads

// Published spans of the last TURNS turns of a team. In every turn a block waits for the spans of the
// last tiles of others, needed or not, so that no block is five turns ahead of another.
constexpr int TURNS = 8;
// Spans that a lane polls at once: few of them wait longer, many do not fit into its registers.
constexpr int BATCHES = (TEAM * PACK * UNITS + 47) / 48, BATCH = (TEAM + BATCHES - 1) / BATCHES;

struct Ring {
  Unit* descriptors;
  unsigned epoch;
  DEVICE Ring(Unit* space, unsigned epoch)
      : descriptors(space + blockIdx.x / TEAM * ((long long)TURNS * TEAM * COLUMNS * UNITS)),
        epoch(epoch) {}
  DEVICE long long place(int turn, int member, int c) const {
    return (turn % TURNS * TEAM + member) * (long long)COLUMNS + c * 32 + threadIdx.x % 32;
  }
  DEVICE unsigned tag(int turn) const { return epoch * 4 + turn / TURNS % 4; }
};

// The states of each lane's columns after the TEAM tiles before this block's tile of `turn`. Those
// tiles from `begin` on have the same columns.
DEVICE inline States fold_columns(const Ring& ring, int turn, int begin, States states) {
  const int member = blockIdx.x % TEAM;
  for (int first = 0; first < TEAM; first += BATCH) {
    Spans run[BATCH];
    bool complete;
    do {
      complete = true;
#pragma unroll
      for (int j = 0; j < BATCH; ++j) {
        const int k = first + j, wraps = member + k < TEAM;
        const int other = wraps ? member + k : member + k - TEAM, then = turn - wraps;
        if (k < TEAM && then >= 0)
#pragma unroll
          for (int c = 0; c < PACK; ++c)
            complete = received(ring.descriptors, ring.place(then, other, c), ring.tag(then),
                                run[j].of[c]) && complete;
      }
    } while (!__all_sync(ALL, complete));
#pragma unroll
    for (int j = 0; j < BATCH; ++j)
      if (first + j >= begin && first + j < TEAM) states = after(run[j], states);
  }
  return states;
}

// The look-ahead warp of a team: finds the states at the start of the block's tiles.
DEVICE inline void resolve(States (&tile_entry)[RING][32], const Entry& entry, const Ring& ring,
                           Cursor at, const Columns& shape) {
  const int member = blockIdx.x % TEAM;
  States states = {};
  for (int turn = 0; !at.ends(shape); ++turn, advance(at, shape)) {
    const bool is_first = at.tile == member;
    if (is_first) states = entries_of(entry, at.column, shape);
    await_published(turn);
    states = fold_columns(ring, turn, is_first ? TEAM - member : 0, states);
    tile_entry[turn % RING][threadIdx.x % 32] = states;
    __syncwarp();
    announce_resolved(turn);
  }
}

DEVICE inline void publish_tile(const Ring& ring, int turn, const Spans& total) {
#pragma unroll
  for (int c = 0; c < PACK; ++c)
    publish(ring.descriptors, ring.place(turn, blockIdx.x % TEAM, c), total.of[c], ring.tag(turn));
  __syncwarp();
  announce_published(turn);
}

// Marks a run of steps from its k-th one on, in time, and the first step after it.
DEVICE inline void mark_run(const Ledger& ledger, const Cursor& at, int k, const Columns& shape) {
  const long long begin = (at.tile * WARPS + threadIdx.x / 32) * RUN, last = begin + RUN;
  if (begin >= shape.steps) return;
  const long long time = begin + k < shape.steps ? begin + k : shape.steps - 1;
  const long long line = at.group * PACK + threadIdx.x % 32 * PACK / 32;  // 32 columns each
  ledger.enter(line, time, last < shape.steps ? last : shape.steps - 1);
}

// Marks the run from its k-th step on if the state of a column after the spans is suspect.
DEVICE inline void mark_doubts(const Ledger& ledger, const Cursor& at, int k, const Columns& shape,
                               const Spans& spans, const States& entry, const States& reached) {
  if (!GUARDED || !at.column.exists) return;
  bool doubtful = false;
#pragma unroll
  for (int c = 0; c < PACK; ++c)
    doubtful = doubtful || !is_moderate(reached.of[c]) ||
               is_doubtful(spans.of[c], entry.of[c], reached.of[c]);
  if (doubtful) mark_run(ledger, at, k, shape);
}

DEVICE void determine_columns(const Source& source, const Entry& entry,
                              Stored* const (&results)[Transfer::STATES], Unit* descriptors,
                              const Ledger& ledger, const Columns& lines, unsigned epoch) {
  extern __shared__ __align__(16) unsigned char memory[];
  Stored* const slots = reinterpret_cast<Stored*>(memory);
  const Columns shape = grouped(lines);
  const long long member = blockIdx.x % TEAM, group = blockIdx.x / TEAM;
  Cursor next = {group, member, 0, column_of(group, shape), false};
  next.place(shape);
  __shared__ Span totals[2][WARPS][COLUMNS];
  __shared__ States tile_entry[RING][32];
  const Ring ring(descriptors, epoch);
  if (TEAM > 1 && threadIdx.x >= THREADS) return resolve(tile_entry, entry, ring, next, shape);
  Cursor at = {shape.groups, 0, 0, {}, false}, later = next;
  for (int k = 0; k < STAGES; ++k, advance(later, shape))
    request(slots, k, source, later, shape);
  Items items, next_items;
  Joins joins, next_joins;
  States states = {};  // at the start of the tile, for a team of one
  int stage = 0;
  for (int turn = -1; turn < 0 || !at.ends(shape); ++turn) {
    if (!next.ends(shape)) {  // upsweep of the next tile
      read_items(slots, stage, source, next, shape, next_items);
      next_joins = join_warps(upsweep(source, next_items, next, shape), totals[(turn + 1) % 2]);
      if (TEAM > 1 && threadIdx.x >= THREADS - 32)
        publish_tile(ring, turn + 1, next_joins.total);
      request(slots, stage, source, later, shape);
      advance(later, shape);
      if (++stage == STAGES) stage = 0;
    }
    if (turn >= 0) {  // downsweep
      if (TEAM > 1) await_resolved(turn);
      if (TEAM > 1) states = tile_entry[turn % RING][threadIdx.x % 32];
      else if (at.tile == 0) states = entries_of(entry, at.column, shape);
      const States begin = after(joins.before, states);
      mark_doubts(ledger, at, 0, shape, joins.before, states, begin);
      int height = 0;
      const States end = downsweep(source, items, at, shape, begin, results,
                                   [&](const Transfer::State& state) {
                                     if (GUARDED) height = max(height, height_of(state.v[0]));
                                   });
      if (!is_moderate_height(height) && at.column.exists) mark_run(ledger, at, 0, shape);
      mark_doubts(ledger, at, RUN - 1, shape, joins.total, states, end);
      if (TEAM == 1) states = after(joins.total, states);
    }
    at = next;
    if (!next.ends(shape)) advance(next, shape);
    items = next_items;
    joins = next_joins;
  }
}

// Determine rows along a slow axis in one pass, without a transposed copy.
//
// If columns are too few for the GPU, a team of blocks shares them: step tiles are assigned round robin
// in the team, with the look-ahead of contiguous rows, a lane for each column. The state passes through
// the spans of tiles one by one, in a team as in a single block: the bits are the same.
#pragma once
#include "scans/cuda/columns/columns.cuh"
#include "scans/cuda/trust/guard.cuh"

constexpr int LOOKAHEAD = TEAM > 1 ? 32 : 0;  // threads

// Published spans of the last ROUNDS rounds of a team. In every round a block waits for the spans
// of the last tiles of others, needed or not, so that no block is five rounds ahead of another.
constexpr int ROUNDS = 8;
// Spans that a lane polls at once: few of them wait longer, many do not fit into its registers.
constexpr int POLLS = (TEAM * LANE_COLUMNS * UNITS + 47) / 48;
constexpr int POLLED = (TEAM + POLLS - 1) / POLLS;

struct SpanRing {
  Unit* descriptors;
  unsigned epoch;
  DEVICE SpanRing(Unit* space, unsigned epoch)
      : descriptors(space + blockIdx.x / TEAM * ((long long)ROUNDS * TEAM * COLUMNS * UNITS)),
        epoch(epoch) {}
  DEVICE long long index(int round, int member, int c) const {
    return (round % ROUNDS * TEAM + member) * (long long)COLUMNS + c * 32 + threadIdx.x % 32;
  }
  DEVICE unsigned tag(int round) const { return tag_of(epoch, round / ROUNDS); }
};

// The states of each lane's columns after the TEAM tiles before this block's tile of `round`. Those
// tiles from `first_needed` on have the same columns.
DEVICE inline States fold_columns(const SpanRing& ring, int round, int first_needed,
                                  States states) {
  const int member = blockIdx.x % TEAM;
  for (int first = 0; first < TEAM; first += POLLED) {
    Span spans[POLLED * LANE_COLUMNS];
    const auto then = [=](int k) { return round - (member + first + k / LANE_COLUMNS < TEAM); };
    const auto index = [=](int k) {
      const int other = member + first + k / LANE_COLUMNS;
      return ring.index(then(k), other < TEAM ? other : other - TEAM, k % LANE_COLUMNS);
    };
    unsigned missing = 0;
#pragma unroll
    for (int k = 0; k < POLLED * LANE_COLUMNS; ++k)
      missing |= unsigned(first + k / LANE_COLUMNS < TEAM && then(k) >= 0) << k;
    await_spans(ring.descriptors, missing, spans, index, [=](int k) { return ring.tag(then(k)); });
#pragma unroll
    for (int j = 0; j < POLLED; ++j)
      if (first + j >= first_needed && first + j < TEAM)
#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; ++c)
          states.of[c] = after(spans[j * LANE_COLUMNS + c], states.of[c]);
  }
  return states;
}

// The look-ahead warp of a team: finds the states at the start of the block's tiles.
DEVICE inline void resolve(States (&tile_carry_in)[RING][32], const Entry& carry_ins,
                           const SpanRing& ring, Cursor at, const Columns& shape) {
  const int member = blockIdx.x % TEAM;
  States states = {};
  for (int round = 0; !at.ends(shape); ++round, advance(at, shape)) {
    const bool is_first = at.tile == member;
    if (is_first) states = carry_ins_of(carry_ins, at.column, shape);
    await_published(round);
    states = fold_columns(ring, round, is_first ? TEAM - member : 0, states);
    tile_carry_in[round % RING][threadIdx.x % 32] = states;
    __syncwarp();
    announce_resolved(round);
  }
}

DEVICE inline void publish_tile(const SpanRing& ring, int round, const Spans& total) {
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c)
    publish(ring.descriptors, ring.index(round, blockIdx.x % TEAM, c), total.of[c],
            ring.tag(round));
  __syncwarp();
  announce_published(round);
}

// Marks a run of steps from its k-th one on, in time, and the first step after it.
DEVICE inline void mark_part(const RepairList& repair_list, const Cursor& at, int k,
                             const Columns& shape) {
  const long long first = (at.tile * WARPS + threadIdx.x / 32) * RUN, last = first + RUN;
  if (first >= shape.steps) return;
  const long long time = first + k < shape.steps ? first + k : shape.steps - 1;
  const long long column_group =
      at.group * LANE_COLUMNS + threadIdx.x % 32 * LANE_COLUMNS / 32;  // 32 columns each
  repair_list.add(column_group, time, last < shape.steps ? last : shape.steps - 1);
}

// Marks the run from its k-th step on if the state of a column after the spans is suspect.
DEVICE inline void mark_suspect(const RepairList& repair_list, const Cursor& at, int k,
                                const Columns& shape, const Spans& spans, const States& carry_in,
                                const States& reached) {
  if (!GUARDED || !at.column.exists) return;
  bool is_any_suspect = false;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c)
    is_any_suspect = is_any_suspect || !is_in_range(reached.of[c]) ||
                     is_suspect(spans.of[c], carry_in.of[c], reached.of[c]);
  if (is_any_suspect) mark_part(repair_list, at, k, shape);
}

DEVICE void determine_columns(const Source& source, const Entry& carry_ins,
                              Stored* const (&results)[Transfer::STATES], Unit* descriptors,
                              const RepairList& repair_list, const Columns& ungrouped,
                              unsigned epoch) {
  extern __shared__ __align__(16) unsigned char memory[];
  Stored* const slots = reinterpret_cast<Stored*>(memory);
  const Columns shape = grouped(ungrouped);
  const long long member = blockIdx.x % TEAM, group = blockIdx.x / TEAM;
  Cursor next = {group, member, 0, column_of(group, shape), false};
  next.locate(shape);
  __shared__ Span totals[2][WARPS][COLUMNS];
  __shared__ States tile_carry_in[RING][32];
  const SpanRing ring(descriptors, epoch);
  if (TEAM > 1 && threadIdx.x >= THREADS)
    return resolve(tile_carry_in, carry_ins, ring, next, shape);
  Cursor at = {shape.groups, 0, 0, {}, false}, later = next;
  for (int k = 0; k < STAGES; ++k, advance(later, shape))
    request(slots, k, source, later, shape);
  Items items, next_items;
  Joins joins, next_joins;
  States states = {};  // at the start of the tile, for a team of one
  int stage = 0;
  for (int round = -1; round < 0 || !at.ends(shape); ++round) {
    if (!next.ends(shape)) {  // upsweep of the next tile
      read_items(slots, stage, source, next, shape, next_items);
      next_joins = join_warps(upsweep(source, next_items, next, shape), totals[(round + 1) % 2]);
      if (TEAM > 1 && threadIdx.x >= THREADS - 32)
        publish_tile(ring, round + 1, next_joins.total);
      request(slots, stage, source, later, shape);
      advance(later, shape);
      if (++stage == STAGES) stage = 0;
    }
    if (round >= 0) {  // downsweep
      if (TEAM > 1) await_resolved(round);
      if (TEAM > 1) states = tile_carry_in[round % RING][threadIdx.x % 32];
      else if (at.tile == 0) states = carry_ins_of(carry_ins, at.column, shape);
      const States start_states = after(joins.before, states);
      mark_suspect(repair_list, at, 0, shape, joins.before, states, start_states);
      int height = 0;
      const States end_states = downsweep(source, items, at, shape, start_states, results,
                                          [&](const Transfer::State& state) {
                                     if (GUARDED) height = max(height, height_of(state.v[0]));
                                   });
      if (!is_height_in_range(height) && at.column.exists) mark_part(repair_list, at, 0, shape);
      mark_suspect(repair_list, at, RUN - 1, shape, joins.total, states, end_states);
      if (TEAM == 1) states = after(joins.total, states);
    }
    at = next;
    if (!next.ends(shape)) advance(next, shape);
    items = next_items;
    joins = next_joins;
  }
}

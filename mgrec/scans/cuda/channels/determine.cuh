// Determine a few columns side by side in one pass over memory: look-ahead with persistent blocks.
//
// The scheme is that of rows/determine.cuh with a span for each channel of a tile. A block
// publishes the spans of a tile DISTANCE rounds before it needs the states there; separate warps
// meanwhile fold the spans of all tiles since the block's last one into these states.
#pragma once
#include "scans/cuda/channels/tile.cuh"
#include "scans/cuda/rows/fold.cuh"

// The states of all channels at the start of a tile, from the spans of all tiles before it.
//
// As in rows/fold.cuh, tiles form groups of 32, counted from the first, and the group of a channel is
// joined by one tree: the arithmetic does not depend on the number of blocks. Some warps join tiles, a
// quarter of a warp those of one group and channel. Another warp, the spine, goes from group to group.
// With few channels (DIRECT), the joining warps poll all tiles since the block's last one. With more
// they poll those of the block's own group, and the block with the last tile of a group publishes the
// join, which the spines of the others poll: 16 channels ran at 0.40 of the floor where every block
// polled all tiles, and at 0.82 by groups; 4 channels at 0.95 and at 0.83.

constexpr int LOOKAHEAD = 32 * AHEAD, JOINING = LOOKAHEAD - 32;  // threads
constexpr int GROUPS = 6;  // that a round of 160 blocks spans
constexpr int JOINED = DIRECT ? GROUPS : 1, POLLED = DIRECT ? 1 : GROUPS;
constexpr int AT_ONCE = (POLLED * CHANNELS + 31) / 32;
static_assert(CHANNELS <= 32 && AHEAD > 1, "a lane of the spine for each channel");

// Rings of the published spans of the last tiles and groups. A block publishes a tile after it has
// used all tiles up to three rounds before, so that no block needs a tile that is eight rounds
// older.
struct Board {
  Unit* descriptors;
  unsigned epoch;
  Divisor ring, groups;
  DEVICE Board(Unit* space, unsigned epoch, const Channels& shape)
      : epoch(epoch), ring(8 * shape.team + 2 * GROUP), groups(ring.value / GROUP + 1) {
    const long long team = (ring.value + groups.value) * CHANNELS * UNITS;
    descriptors = space + shape.first * team;
  }
  // The index and the tag of a span: number `first` + k of a ring of entries from `start` on.
  DEVICE void locate(unsigned start, const Divisor& size, unsigned first, unsigned k, int channel,
                     long long& index, unsigned& tag) const {
    const unsigned wraps = size.quotient(first), index_in_ring = first - wraps * size.value + k;
    const bool is_past = index_in_ring >= size.value;
    index = (long long)(start + index_in_ring - (is_past ? size.value : 0)) * CHANNELS + channel;
    tag = tag_of(epoch, wraps + is_past);
  }
  DEVICE void locate_tile(unsigned first, unsigned k, int channel, long long& index,
                          unsigned& tag) const {
    locate(0, ring, first, k, channel, index, tag);
  }
  DEVICE void locate_group(unsigned first, unsigned k, int channel, long long& index,
                           unsigned& tag) const {
    locate(ring.value, groups, first, k, channel, index, tag);
  }
  DEVICE void publish_tile(unsigned tile, int channel, const Span& span) const {
    long long index;
    unsigned tag;
    locate_tile(tile, 0, channel, index, tag);
    publish(descriptors, index, span, tag);
  }
  DEVICE void publish_group(unsigned group, int channel, const Span& span) const {
    long long index;
    unsigned tag;
    locate_group(group, 0, channel, index, tag);
    publish(descriptors, index, span, tag);
  }
};

// `await_spans` of a board, where `locate(k, index, tag)` gives the index and the tag of a span.
template <int COUNT, class Locate>
DEVICE inline void await_spans(const Board& board, unsigned missing, Span (&spans)[COUNT], Locate locate) {
  long long indices[COUNT];
  unsigned tags[COUNT];
#pragma unroll
  for (int k = 0; k < COUNT; ++k) locate(k, indices[k], tags[k]);
  await_spans(board.descriptors, missing, spans, [&](int k) { return indices[k]; },
              [&](int k) { return tags[k]; });
}

struct Front {  // in shared memory
  Span groups[POLLED][CHANNELS];        // joins that the spine has polled
  Span tiles[RING][JOINED][CHANNELS];   // joins of the tiles before a block's tile
};

static_assert((STAGES > DISTANCE || !STAGES) && DISTANCE < RING - 1, "tiles between them wait");

// Whole warps arrive at hardware barriers.
DEVICE inline void announce(int barrier, int threads) {
  __syncwarp();
  arrive(barrier, threads);
}
DEVICE inline void await(int barrier, int threads) {
  __syncwarp();
  meet(barrier, threads);
}
// The joining warps have written the joins for a block's tile `round`, for which the spine waits.
DEVICE inline int joined(int round) { return 11 + round % RING; }

// The join of a group's tiles, from those of SHARE lanes, in the first of them.
DEVICE inline Span join_lanes(const Span (&spans)[RUN]) {
  Span span = join_spans(spans);
#pragma unroll
  for (int distance = 1; distance < SHARE; distance *= 2) {
    const Span above = from_above(span, distance);
    if (threadIdx.x % (2 * distance) == 0) span = join(span, above);
  }
  return span;
}

// Join the tiles before `tile` in its group and the groups from `group` on, but from `first_tile`
// on only. If `tile` is the last one of its group, publish the join of the group for spines that
// poll it.
DEVICE inline void join_tiles(Span (&joins)[JOINED][CHANNELS], long long group, long long tile,
                              long long first_tile, const Board& board) {
  const bool is_last = !DIRECT && tile % GROUP == GROUP - 1;
  const long long end = tile + is_last;
  const int units = int(tile / GROUP - group + 1) * CHANNELS;
  for (int first = 0; first < units; first += JOINING / SHARE) {
    const int unit = first + (int(threadIdx.x) - THREADS) / SHARE;
    const int number = unit / CHANNELS, channel = unit - number * CHANNELS;
    const long long mine = (group + number) * GROUP + threadIdx.x % SHARE * RUN;
    const bool exists = unit < units, is_first = threadIdx.x % SHARE == 0;
    Span spans[RUN];
    unsigned missing = 0;
#pragma unroll
    for (int k = 0; k < RUN; ++k)
      missing |= unsigned(exists && mine + k >= first_tile && mine + k < end) << k;
    await_spans(board, missing, spans, [&](int k, long long& index, unsigned& tag) {
      board.locate_tile(unsigned(mine), k, channel, index, tag);
    });
    if (is_last) {
      const Span span = join_lanes(spans);
      if (exists && is_first) board.publish_group(unsigned(group), channel, span);
      if (threadIdx.x % SHARE == SHARE - 1) spans[RUN - 1] = empty_span();
    }
    const Span span = join_lanes(spans);
    if (exists && is_first) joins[number][channel] = span;
  }
}

// The joining warps.
DEVICE inline void join_groups(Front& front, const Board& board, const Channels& shape) {
  int round = 0;
  for (long long number = shape.rank; number < shape.count(); number += shape.team, ++round) {
    const long long first_tile = Tile(number, shape).first_tile, last = number - shape.team;
    const long long since = !DIRECT ? number : last < first_tile ? first_tile : last;
    await(published(round), THREADS + JOINING);
    join_tiles(front.tiles[round % RING], since / GROUP, number, first_tile, board);
    announce(joined(round), LOOKAHEAD);
  }
}

// The state of one channel, in its lane.
struct ChannelSpine {
  Transfer::State state;        // at the start of the group, or of the outer part
  long long group, first_tile;  // the first tile of the outer part

  // The state after a span before the tile `end`. Calls mark_suspect(end) if it is suspect.
  template <class Doubt>
  DEVICE Transfer::State after_span(const Span& span, long long end, Doubt mark_suspect) const {
    const Transfer::State reached = after(span, state);
    if (GUARDED && is_suspect(span, state, reached)) mark_suspect(end);
    return reached;
  }
  // Go on to the group of `tile` by the joins of `count` groups.
  template <class Doubt>
  DEVICE void advance(const Span (*joins)[CHANNELS], int count, Doubt mark_suspect) {
    const int lane = threadIdx.x % 32;
    for (int k = 0; k < count; ++k, ++group)
      if (lane < CHANNELS) state = after_span(joins[k][lane], (group + 1) * GROUP, mark_suspect);
  }
  // The same by the joins that other blocks publish.
  template <class Doubt>
  DEVICE void advance(Front& front, long long tile, const Board& board, Doubt mark_suspect) {
    const int lane = threadIdx.x % 32;
    while (group < tile / GROUP) {
      const long long left = tile / GROUP - group;
      const int groups = left < POLLED ? int(left) : POLLED;
      Span spans[AT_ONCE];
      unsigned missing = 0;
#pragma unroll
      for (int a = 0; a < AT_ONCE; ++a) missing |= unsigned(a * 32 + lane < groups * CHANNELS) << a;
      await_spans(board, missing, spans, [&](int a, long long& index, unsigned& tag) {
        const int unit = a * 32 + lane, number = unit / CHANNELS;
        board.locate_group(unsigned(group), number, unit - number * CHANNELS, index, tag);
      });
#pragma unroll
      for (int a = 0; a < AT_ONCE; ++a) {
        const int unit = a * 32 + lane, number = unit / CHANNELS;
        if (number < groups) front.groups[number][unit - number * CHANNELS] = spans[a];
      }
      __syncwarp();
      advance(front.groups, groups, mark_suspect);
      __syncwarp();
    }
  }
};

DEVICE inline long long time_of(long long step, const Channels& shape) {
  return REVERSE ? shape.steps - 1 - step : step;
}

// Marks the steps of a part from one on, in time.
DEVICE inline void mark_steps(const RepairList& repair_list, const Tile& tile, int channel,
                              long long time, const Channels& shape) {
  const long long end = shape.steps - 1, last = time + PART_STEPS - 1;
  repair_list.add(tile.row(channel) / 32, time < end ? time : end,
                  last < end ? last : end);
}
DEVICE inline void mark_part(const RepairList& repair_list, const Tile& tile, const Part& part,
                             const Channels& shape) {
  const long long first = tile.first + part.first, last = first + PART_STEPS - 1;
  const long long first_step = REVERSE ? (last < shape.steps ? last : shape.steps - 1) : first;
  mark_steps(repair_list, tile, part.channel, time_of(first_step, shape), shape);
}
DEVICE inline void mark_tile(const RepairList& repair_list, const Tile& tile, int channel,
                             const Channels& shape) {
  const long long first_step = REVERSE ? tile.first + tile.steps - 1 : tile.first;
  mark_steps(repair_list, tile, channel, time_of(first_step, shape), shape);
}

// The spine: the last look-ahead warp.
DEVICE inline void resolve(Transfer::State (&tile_carry_in)[RING][CHANNELS], Front& front,
                           const Entry& carry_ins, const Board& board,
                           const RepairList& repair_list, const Channels& shape) {
  const int channel = threadIdx.x % 32;
  ChannelSpine spine = {Transfer::State{}, 0, -1};
  const auto mark_suspect = [&](long long suspect_tile) {
    const Tile tile(suspect_tile, shape);
    if (channel < tile.columns) mark_tile(repair_list, tile, channel, shape);
  };
  int round = 0;
  for (long long number = shape.rank; number < shape.count(); number += shape.team, ++round) {
    const Tile tile(number, shape);
    if (tile.first_tile != spine.first_tile) {
      spine.first_tile = tile.first_tile;
      spine.group = tile.first_tile / GROUP;
      if (channel < tile.columns) spine.state = carry_ins.at(tile.row(channel));
    }
    const Span (&joins)[JOINED][CHANNELS] = front.tiles[round % RING];
    const int before = DIRECT ? int(number / GROUP - spine.group) : 0;
    if (!DIRECT) spine.advance(front, number, board, mark_suspect);
    await(joined(round), LOOKAHEAD);
    spine.advance(joins, before, mark_suspect);
    if (channel < CHANNELS)
      tile_carry_in[round % RING][channel] =
          spine.after_span(joins[before][channel], number, mark_suspect);
    announce(resolved(round), THREADS + 32);
  }
}

template <bool WHOLE>
DEVICE inline Span upsweep(const Source& source, const Items& items, const Tile& tile,
                           const Part& part) {
  if (WHOLE) {
    Transfer::Map map = source.map(items, in_time(0));
#pragma unroll
    for (int k = 1; k < ITEMS; ++k) map = Transfer::compose(map, source.map(items, in_time(k)));
    return span_of(map);
  }
  Span span = empty_span();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    if (part.has(in_time(k), tile)) span = join(span, span_of(source.map(items, in_time(k))));
  return span;
}

// Writes the states of a batch, the last one to `state`; returns whether one comes near overflow.
template <bool WHOLE>
DEVICE inline bool downsweep(const Source& source, const Items& items, const Tile& tile,
                             const Part& part, Transfer::State& state, States& w) {
  int height = 0;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int r = in_time(k);
    if (WHOLE || part.has(r, tile)) {
      state = Transfer::apply(source.map(items, r), state);
      if (GUARDED) height = max(height, height_of(state.v[0]));
    }
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q) w[q][r] = state.v[q];
  }
  return !is_height_in_range(height);
}

struct Memory {  // of a block and of the grid
  const Source& source;
  Stored* const (&results)[Transfer::STATES];
  const Stages& stages;
  const RepairList& repair_list;
  const Channels& shape;
};

template <bool WHOLE>
DEVICE inline void span_part(const Memory& memory, int stage, const Tile& tile, const Part& part,
                             Spans& spans) {
#pragma unroll 1
  for (int number = 0; number < BATCHES; ++number) {
    const Part batch = part.batch(number);
    Items items[LANE_COLUMNS];
    read_items<WHOLE>(memory.stages, stage, memory.source, tile, batch, memory.shape, items);
#pragma unroll
    for (int c = 0; c < LANE_COLUMNS; ++c) {
      const Span span = upsweep<WHOLE>(memory.source, items[c], tile, batch);
      spans[c] = number == 0 ? span : join_known<WHOLE>(spans[c], span);
    }
  }
}

template <bool WHOLE>
DEVICE inline void write_part(const Memory& memory, int stage, const Tile& tile, const Part& part,
                              const Spans& before, const Transfer::State* carry_in) {
  Transfer::State states[LANE_COLUMNS];
  bool is_any_suspect = false;
#pragma unroll
  for (int c = 0; c < LANE_COLUMNS; ++c) {
    states[c] = after(before[c], carry_in[c]);
    is_any_suspect |= !is_in_range(states[c]) || is_suspect(before[c], carry_in[c], states[c]);
  }
#pragma unroll 1
  for (int number = 0; number < BATCHES; ++number) {
    const Part batch = part.batch(number);
    Items items[LANE_COLUMNS];
    read_items<WHOLE>(memory.stages, stage, memory.source, tile, batch, memory.shape, items);
    States w[LANE_COLUMNS];
#pragma unroll
    for (int c = 0; c < LANE_COLUMNS; ++c)
      is_any_suspect |= downsweep<WHOLE>(memory.source, items[c], tile, batch, states[c], w[c]);
    write_items<WHOLE>(memory.stages, memory.results, tile, batch, memory.shape, w);
  }
  if (GUARDED && is_any_suspect && part.has(0, tile))
    mark_part(memory.repair_list, tile, part, memory.shape);
}

DEVICE void determine_channels(const Source& source, const Entry& carry_ins,
                               Stored* const (&results)[Transfer::STATES], Unit* space,
                               const RepairList& repair_list, const Channels& shape,
                               unsigned epoch) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ WarpSpans totals[2];
  __shared__ Front front;
  __shared__ Transfer::State tile_carry_in[RING][CHANNELS];
  const Stages stages(memory);
  const Board board(space, epoch, shape);
  const long long stride = shape.team, count = shape.count();
  const auto load = [&](int k, long long number, int piece) {
    if (COPIED) request_words(stages, k, source, number, piece, shape);
    else if (threadIdx.x == 0) request(stages, k, source, number, piece, shape);
  };
  if (BULK && threadIdx.x == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(stages.barriers + k);
    fence_proxy();
  }
  if (threadIdx.x < THREADS)
    for (int k = 0; k < STAGES; ++k)
      for (int piece = 0; piece < PIECES; ++piece) load(k, shape.rank + k * stride, piece);
  __syncthreads();
  if (threadIdx.x >= THREADS + JOINING)
    return resolve(tile_carry_in, front, carry_ins, board, repair_list, shape);
  if (threadIdx.x >= THREADS) return join_groups(front, board, shape);

  const Part part;
  const Memory all = {source, results, stages, repair_list, shape};
  Spans before[DISTANCE + 1], total;  // of the tiles between publishing and needing
  int stage = 0, next_stage = 0, round = -DISTANCE;
  unsigned parity = 0;
  for (long long number = shape.rank - DISTANCE * stride; number < count;
       number += stride, ++round) {
    if (COPIED) {  // the next tile is loaded, and the last stage is free
      copies_wait_but<COPIED ? STAGES - DISTANCE - 2 : 0>();
      __syncwarp();
      synchronize();
    }
    const auto load_piece = [&](int piece) {
      if (round > 0 && piece < PIECES)
        load(stage > 0 ? stage - 1 : STAGES - 1, number + (STAGES - 1) * stride, piece);
    };
    load_piece(0);
    const long long next = number + DISTANCE * stride;
    Spans& spans = before[DISTANCE];
#pragma unroll
    for (int c = 0; c < LANE_COLUMNS; ++c) spans[c] = empty_span();
    if (next < count) {  // upsweep
      const Tile tile(next, shape);
      if (BULK && Source::STREAMS > 0) barrier_wait(stages.barriers + next_stage, parity);
      if (part.exists) {
        if (tile.is_whole()) span_part<true>(all, next_stage, tile, part, spans);
        else span_part<false>(all, next_stage, tile, part, spans);
      }
      if (FILLED && tile.is_whole()) channel_scan<true>(spans, total, part, totals[round & 1]);
      else channel_scan<false>(spans, total, part, totals[round & 1]);
      if (threadIdx.x >= THREADS - LANES)
#pragma unroll
        for (int c = 0; c < LANE_COLUMNS; ++c)
          board.publish_tile(unsigned(next), part.channel + c, total[c]);
      announce(published(round + DISTANCE), THREADS + JOINING);
      if (++next_stage == STAGES) next_stage = 0, parity ^= 1;
    }
    load_piece(1);
    if (number >= 0) {  // downsweep
      const Tile tile(number, shape);
      if (BULK && threadIdx.x == 0) bulk_wait_read();
      await(resolved(round), THREADS + 32);  // the stores may continue
      load_piece(2);
      if (part.exists) {
        const Transfer::State* carry_in = tile_carry_in[round % RING] + part.channel;
        if (tile.is_whole()) write_part<true>(all, stage, tile, part, before[0], carry_in);
        else write_part<false>(all, stage, tile, part, before[0], carry_in);
      }
      if (BULK) fence_proxy();
      if (!COPIED) {
        __syncwarp();
        synchronize();
      }
      if (BULK && threadIdx.x == 0 && tile.is_whole()) store(stages, results, tile, shape);
      if (++stage == STAGES) stage = 0;
    }
#pragma unroll
    for (int k = 0; k < DISTANCE; ++k)
#pragma unroll
      for (int c = 0; c < LANE_COLUMNS; ++c) before[k][c] = before[k + 1][c];
  }
}

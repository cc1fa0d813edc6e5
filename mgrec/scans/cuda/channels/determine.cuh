// Determine a few columns side by side in one pass over memory: look-ahead with persistent blocks.
//
// The scheme is that of rows/determine.cuh with a span for each channel of a tile. A block publishes
// the spans of a tile DISTANCE turns before it needs the states there; separate warps meanwhile fold
// the spans of all tiles since the block's last one into these states.
#pragma once
#include "scans/cuda/channels/tile.cuh"
#include "scans/cuda/rows/fold.cuh"

// The states of all channels at the start of a tile, from the spans of all tiles before it.
//
// As in rows/fold.cuh, tiles form groups of 32, counted from the first, and the group of a channel is
// joined by one tree: the arithmetic does not depend on the number of blocks. Groups and channels are
// assigned to the quarters of several warps, which poll their spans at once; then a thread for each
// channel goes from group to group.

constexpr int LOOKAHEAD = 32 * AHEAD, TEAMS = LOOKAHEAD / SHARE;
constexpr int GROUPS = 8;  // that are joined before the channels go on

DEVICE inline void look_together() {
  __syncwarp();
  asm volatile("bar.sync 6, %0;" ::"n"(LOOKAHEAD) : "memory");
}

// A ring of the published spans of the last tiles. A block publishes a tile after it has used all
// tiles up to three turns before, so that no block needs a tile that is eight turns older.
struct Board {
  Unit* descriptors;
  unsigned epoch, ring;
  DEVICE Board(Unit* space, unsigned epoch, const Channels& shape)
      : epoch(epoch), ring(8 * shape.team + 2 * GROUP) {
    descriptors = space + (long long)shape.first * ring * CHANNELS * UNITS;  // each team's own
  }
  DEVICE unsigned tag(unsigned wraps) const { return epoch * 4 + wraps % 4; }
  DEVICE void enter(unsigned tile, int channel, const Span& span) const {
    publish(descriptors, (long long)(tile % ring) * CHANNELS + channel, span, tag(tile / ring));
  }
};

// The spans that one lane polls: RUN tiles of a group, of one channel.
struct Share {
  Span run[RUN];
  bool missing[RUN];
  Unit units[RUN][UNITS];  // as they were polled last
  unsigned place, wraps;
  int channel;

  // Of the tiles those in begin..end-1 count.
  DEVICE void begin(const Board& board, long long group, int own, long long begin, long long end) {
    const long long mine = group * GROUP + threadIdx.x % SHARE * RUN;
    channel = own;
    wraps = unsigned(mine) / board.ring;
    place = unsigned(mine) - wraps * board.ring;
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      run[k] = empty_span();
      missing[k] = mine + k >= begin && mine + k < end;
    }
  }
  DEVICE bool wraps_at(const Board& board, int k) const { return place + k >= board.ring; }
  DEVICE void ask(const Board& board) {
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      const long long other = place + k - (wraps_at(board, k) ? board.ring : 0);
      poll_if(missing[k], board.descriptors, other * CHANNELS + channel, units[k]);
    }
  }
  // Called after a __syncwarp(); returns false while a span is not published.
  DEVICE bool take(const Board& board) {
    bool waiting = false;
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
      const unsigned tag = board.tag(wraps + wraps_at(board, k));
      missing[k] = missing[k] & !taken(units[k], tag, missing[k], run[k]);
      waiting = waiting | missing[k];
    }
    return !waiting;
  }
  // The join of the group, in the first of its SHARE lanes.
  DEVICE Span joined() const {
    Span span = join_run(run);
#pragma unroll
    for (int distance = 1; distance < SHARE; distance *= 2) {
      const Span above = from_above(span, distance);
      if (threadIdx.x % (2 * distance) == 0) span = join(span, above);
    }
    return span;
  }
};

// A poll waits behind the loads of the block: more spans are polled at once if there are more.
constexpr int AT_ONCE = CHANNELS <= 5 ? 1 : CHANNELS <= 10 ? 2 : CHANNELS <= 16 ? 3 : 4;

struct Front {
  Span folded[GROUPS][CHANNELS];  // in shared memory
};

// The state of one channel, in its thread.
struct ChannelSpine {
  Transfer::State state;   // at the start of the group, or of the outer part
  long long group, begin;  // the first tile of the outer part
};

// The states before `tile`. Calls doubt(tile) for suspect ones.
template <class Doubt>
DEVICE inline Transfer::State advance(ChannelSpine& spine, Front& front, long long tile,
                                      const Board& board, Doubt doubt) {
  const int thread = int(threadIdx.x) - THREADS;
  while (true) {
    const long long left = tile / GROUP - spine.group + 1;
    const int groups = left < GROUPS ? int(left) : GROUPS, units = groups * CHANNELS;
    for (int first = 0; first < units; first += AT_ONCE * TEAMS) {
      Share shares[AT_ONCE];
      bool complete;
#pragma unroll
      for (int a = 0; a < AT_ONCE; ++a) {
        const int unit = first + a * TEAMS + thread / SHARE, number = unit / CHANNELS;
        shares[a].begin(board, spine.group + number, unit - number * CHANNELS, spine.begin,
                        unit < units ? tile : 0);
      }
      do {
        complete = true;
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) shares[a].ask(board);
        __syncwarp();
#pragma unroll
        for (int a = 0; a < AT_ONCE; ++a) complete = shares[a].take(board) & complete;
      } while (!__all_sync(ALL, complete));
#pragma unroll
      for (int a = 0; a < AT_ONCE; ++a) {
        const int unit = first + a * TEAMS + thread / SHARE;
        const Span span = shares[a].joined();
        if (unit < units && thread % SHARE == 0)
          front.folded[unit / CHANNELS][shares[a].channel] = span;
      }
    }
    look_together();
    Transfer::State reached = spine.state;
    for (int k = 0; k < groups; ++k, ++spine.group) {
      const long long end = (spine.group + 1) * GROUP;
      if (thread < CHANNELS) {
        const Span span = front.folded[k][thread];
        reached = after(span, spine.state);
        if (GUARDED && is_doubtful(span, spine.state, reached)) doubt(end < tile ? end : tile);
      }
      if (tile < end) {
        look_together();
        return reached;
      }
      spine.state = reached;
    }
    look_together();
  }
}


constexpr int EVERYONE = THREADS + LOOKAHEAD;
static_assert((STAGES > DISTANCE || !STAGES) && DISTANCE < RING - 1, "tiles between them wait");

// Whole warps arrive at hardware barriers.
DEVICE inline void announce(int barrier) {
  __syncwarp();
  arrive(barrier, EVERYONE);
}
DEVICE inline void await(int barrier) {
  __syncwarp();
  meet(barrier, EVERYONE);
}

DEVICE inline long long time_of(long long step, const Channels& shape) {
  return REVERSE ? shape.steps - 1 - step : step;
}

// Marks ITEMS steps from one on, in time.
DEVICE inline void mark_steps(const Ledger& ledger, const Tile& tile, int channel, long long time,
                              const Channels& shape) {
  const long long end = shape.steps - 1, last = time + ITEMS - 1;
  ledger.enter(tile.row(channel, shape) / 32, time < end ? time : end,
               last < end ? last : end);
}
DEVICE inline void mark_part(const Ledger& ledger, const Tile& tile, const Part& part,
                             const Channels& shape) {
  const long long first = tile.first + part.first(), last = first + ITEMS - 1;
  const long long begin = REVERSE ? (last < shape.steps ? last : shape.steps - 1) : first;
  mark_steps(ledger, tile, part.channel, time_of(begin, shape), shape);
}
DEVICE inline void mark_tile(const Ledger& ledger, const Tile& tile, int channel,
                             const Channels& shape) {
  const long long begin = REVERSE ? tile.first + tile.steps - 1 : tile.first;
  mark_steps(ledger, tile, channel, time_of(begin, shape), shape);
}

// The look-ahead warps.
DEVICE inline void resolve(Transfer::State (&tile_entry)[RING][CHANNELS], Front& front,
                           const Entry& entry, const Board& board, const Ledger& ledger,
                           const Channels& shape) {
  const int channel = int(threadIdx.x) - THREADS;
  ChannelSpine spine = {Transfer::State{}, 0, -1};
  int turn = 0;
  for (long long number = shape.rank; number < shape.count(); number += shape.team, ++turn) {
    const Tile tile(number, shape);
    if (tile.begin != spine.begin) {
      spine.begin = tile.begin;
      spine.group = tile.begin / GROUP;
      if (channel < CHANNELS) spine.state = entry.at(tile.row(channel, shape));
    }
    await(published(turn));
    const Transfer::State state =
        advance(spine, front, number, board, [&](long long doubtful) {
          mark_tile(ledger, Tile(doubtful, shape), channel, shape);
        });
    if (channel < CHANNELS) tile_entry[turn % RING][channel] = state;
    announce(resolved(turn));
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

// Writes the states of a thread's steps; returns whether one comes near overflow.
template <bool WHOLE>
DEVICE inline bool downsweep(const Source& source, const Items& items, const Tile& tile,
                             const Part& part, Transfer::State state,
                             T (&w)[Transfer::STATES][ITEMS]) {
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
  return !is_moderate_height(height);
}

struct Memory {  // of a block and of the grid
  const Source& source;
  T* const (&results)[Transfer::STATES];
  const Stages& stages;
  const Ledger& ledger;
  const Channels& shape;
};

template <bool WHOLE>
DEVICE inline Span span_of_part(const Memory& memory, int stage, const Tile& tile,
                                const Part& part) {
  Items items;
  read_items<WHOLE>(memory.stages, stage, memory.source, tile, part, memory.shape, items);
  return upsweep<WHOLE>(memory.source, items, tile, part);
}

template <bool WHOLE>
DEVICE inline void write_part(const Memory& memory, int stage, const Tile& tile, const Part& part,
                              const Span& before, const Transfer::State& entered) {
  Items items;
  read_items<WHOLE>(memory.stages, stage, memory.source, tile, part, memory.shape, items);
  const Transfer::State state = after(before, entered);
  const bool is_doubted = !is_moderate(state) || is_doubtful(before, entered, state);
  T w[Transfer::STATES][ITEMS];
  const bool has_grown = downsweep<WHOLE>(memory.source, items, tile, part, state, w);
  if (GUARDED && (is_doubted || has_grown) && part.has(0, tile))
    mark_part(memory.ledger, tile, part, memory.shape);
  write_items<WHOLE>(memory.stages, memory.results, tile, part, memory.shape, w);
}

DEVICE void determine_channels(const Source& source, const Entry& entry,
                               T* const (&results)[Transfer::STATES], Unit* space,
                               const Ledger& ledger, const Channels& shape, unsigned epoch) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Desk desk;
  __shared__ Front front;
  __shared__ Transfer::State tile_entry[RING][CHANNELS];
  const Stages stages(memory);
  const Board board(space, epoch, shape);
  const long long stride = shape.team, count = shape.count();
  if (BULK && threadIdx.x == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(stages.barriers + k);
    fence_proxy();
    for (int k = 0; k < STAGES; ++k)
      request(stages, k, source, shape.rank + k * stride, shape);
  }
  if (COPIED && threadIdx.x < THREADS)
    for (int k = 0; k < STAGES; ++k)
      request_vectors(stages, k, source, shape.rank + k * stride, shape);
  __syncthreads();
  if (threadIdx.x >= THREADS)
    return resolve(tile_entry, front, entry, board, ledger, shape);

  const Part part;
  const Memory all = {source, results, stages, ledger, shape};
  Span before[DISTANCE + 1];  // of the tiles between publishing and needing
  int stage = 0, next_stage = 0, turn = -DISTANCE;
  unsigned parity = 0;
  for (long long number = shape.rank - DISTANCE * stride; number < count; number += stride, ++turn) {
    if (COPIED) {  // the next tile is loaded, and the last stage is free
      copies_wait_but<COPIED ? STAGES - DISTANCE - 2 : 0>();
      __syncwarp();
      synchronize();
      if (turn > 0)
        request_vectors(stages, stage > 0 ? stage - 1 : STAGES - 1, source,
                      number + (STAGES - 1) * stride, shape);
    }
    const long long next = number + DISTANCE * stride;
    before[DISTANCE] = empty_span();
    if (next < count) {  // upsweep
      const Tile tile(next, shape);
      if (BULK && Source::STREAMS > 0) barrier_wait(stages.barriers + next_stage, parity);
      Span mine = empty_span();
      if (part.exists)
        mine = tile.is_whole() ? span_of_part<true>(all, next_stage, tile, part)
                               : span_of_part<false>(all, next_stage, tile, part);
      const BlockScan scan = channel_scan(mine, part, desk);
      if (part.place == PARTS - 1) board.enter(unsigned(next), part.channel, scan.total);
      announce(published(turn + DISTANCE));
      before[DISTANCE] = scan.before;
      if (++next_stage == STAGES) next_stage = 0, parity ^= 1;
    }
    if (number >= 0) {  // downsweep
      const Tile tile(number, shape);
      if (BULK && threadIdx.x == 0) bulk_wait_read();
      await(resolved(turn));  // the stores may continue
      if (part.exists) {
        const Transfer::State entered = tile_entry[turn % RING][part.channel];
        if (tile.is_whole()) write_part<true>(all, stage, tile, part, before[0], entered);
        else write_part<false>(all, stage, tile, part, before[0], entered);
      }
      if (BULK) fence_proxy();
      if (!COPIED) {
        __syncwarp();
        synchronize();
      }
      if (threadIdx.x == 0) {
        if (BULK && tile.is_whole()) store(stages, results, tile, shape);
        request(stages, stage, source, number + STAGES * stride, shape);
      }
      if (++stage == STAGES) stage = 0;
    }
#pragma unroll
    for (int k = 0; k < DISTANCE; ++k) before[k] = before[k + 1];
  }
}

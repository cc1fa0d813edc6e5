// Determine a few columns side by side in one pass over memory: look-ahead with persistent blocks.
//
// The scheme is that of rows/determine.cuh with a span for each channel of a tile: a block publishes
// those of a tile DISTANCE turns before it needs the states there, and warps of their own meanwhile
// fold the spans of all tiles since the block's last into these states.
#pragma once
#include "scans/cuda/channels/fold.cuh"
#include "scans/cuda/channels/scan.cuh"

constexpr int EVERYONE = THREADS + LOOKAHEAD;
static_assert((STAGES > DISTANCE || !STAGES) && DISTANCE < RING - 1, "tiles between them wait");

// Hardware barriers are met by whole warps.
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

// Spine: the warps that look ahead.
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

// The states of a thread's steps; true where one comes near overflow.
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
    if (COPIED) {  // the next tile is there, and the last one's stage is free
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
      await(resolved(turn));  // and the stores may go on
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

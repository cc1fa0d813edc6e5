// Determine contiguous rows in one pass over memory: look-ahead with persistent blocks.
//
// Tiles are assigned round robin. A block publishes the span of its next tile before it needs the
// state at its current one; a separate warp meanwhile folds the spans of all tiles since the block's
// last one into that state. Under full load a poll waits behind the bulk loads of its multiprocessor
// for about 3 µs: in the scanning warps that cost a third of the bandwidth. The current tile waits in
// registers, so that shared memory serves pending loads.
#pragma once
#include "scans/cuda/rows/fold.cuh"
#include "scans/cuda/rows/tile.cuh"

constexpr int LOOKAHEAD = 32;  // threads

// The first tile whose span affects the state at the start of `tile`.
DEVICE inline long long needed_from(long long tile, const Shape& shape) {
  if (!SEGMENTED) return 0;
  const long long start = start_of(tile, shape), end = start + TILE;
  const long long element = REVERSE ? (end < shape.total ? end : shape.total) - 1 : start;
  const long long row_start = element / shape.steps * shape.steps + (REVERSE ? shape.steps - 1 : 0);
  if (row_start == element) return tile;
  const long long holder = row_start / TILE;
  return REVERSE ? shape.tiles - 1 - holder : holder;
}

// Marks the steps from the k-th one of a thread's part on, in time.
DEVICE inline void mark_from(const Ledger& ledger, const Place& place, int k, const Shape& shape) {
  const long long end = place.first + ITEMS < shape.total ? place.first + ITEMS : shape.total;
  long long element = REVERSE ? place.first + ITEMS - 1 - k : place.first + k;
  if (element >= end) element = end - 1;
  if (element < place.first) return;
  const long long row = element / shape.steps, step = element - row * shape.steps;
  const long long time = REVERSE ? shape.steps - 1 - step : step, last = time + ITEMS - 1;
  ledger.enter(row, time, last < shape.steps ? last : shape.steps - 1);
}

// Returns whether a row begins with the thread's first step: its carry-in comes from no map.
DEVICE inline bool begins_row(const Walk& walk) { return SEGMENTED && walk.until == 0; }

// The first state of a thread, in time, near overflow, or ITEMS.
DEVICE inline int first_growth(const T (&w)[Transfer::STATES][ITEMS]) {
  int height[4] = {0, 0, 0, 0};
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) height[r % 4] = max(height[r % 4], height_of(w[0][r]));
  if (is_moderate_height(max(max(height[0], height[1]), max(height[2], height[3])))) return ITEMS;
  int first = ITEMS;
#pragma unroll
  for (int k = ITEMS - 1; k >= 0; --k)
    if (!is_moderate_height(height_of(w[0][in_time(k)]))) first = k;
  return first;
}

// Marks the steps from such a state on, in all rows of the thread's part.
DEVICE inline void mark_growth(const Ledger& ledger, const Place& place,
                               const T (&w)[Transfer::STATES][ITEMS], const Shape& shape) {
  const int first = first_growth(w);
  if (first == ITEMS) return;
  mark_from(ledger, place, first, shape);
  if (SEGMENTED && !CROWDED) mark_from(ledger, place, ITEMS - 1, shape);
  if (CROWDED)
    for (int k = first + 1; k < ITEMS; ++k) mark_from(ledger, place, k, shape);
}

// Spine: the look-ahead warp.
DEVICE inline void resolve(Transfer::State (&tile_entry)[RING],
                           const Entry& entry, const Unit* descriptors, const Ledger& ledger,
                           const Shape& shape, unsigned epoch) {
  Spine spine = {entry_of(entry, SEGMENTED ? -1 : 0, shape), 0};
  int turn = 0;
  for (long long tile = blockIdx.x; tile < shape.tiles; tile += gridDim.x, ++turn) {
    const long long begin = needed_from(tile, shape);
    await_published(turn);
    Transfer::State state = tile == 0 ? spine.state : Transfer::State{};
    if (begin < tile)
      state = spine.advance(begin, tile, descriptors, epoch, [&](long long doubtful) {
        const int first_part = REVERSE ? THREADS - 1 : 0;
        mark_from(ledger, {start_of(doubtful, shape) + first_part * ITEMS, true}, 0, shape);
      });
    if (threadIdx.x % 32 == 0) tile_entry[turn % RING] = state;
    __syncwarp();
    announce_resolved(turn);
  }
}

struct Part {  // a thread's part of a tile, between its upsweep and its downsweep
  Items items;
  Walk walk;
  Prefixes prefixes;
  Span before;
};

// Möbius maps take as many instructions to scan as to sweep twice, and a third of them compared kinds
// of spans, which are known if no row begins and no step is missing.
DEVICE inline BlockScan scan_tile(const Span& mine, Span (&totals)[WARPS], bool whole) {
  if constexpr (Transfer::QUICK && !SEGMENTED)
    if (whole) return block_scan<true>(mine, totals);
  return block_scan(mine, totals);
}

struct Unwatched {  // ignores the items
  DEVICE void see(const Source&, const Items&, const Place&, const Shape&) {}
};

template <class Watch>
DEVICE void determine_rows(const Source& source, const Entry& entry,
                           Stored* const (&results)[Transfer::STATES], Unit* descriptors,
                           const Ledger& ledger, const Shape& shape, unsigned epoch,
                           Watch&& watch) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Span totals[2][WARPS];
  __shared__ Transfer::State tile_entry[RING];
  const Stages stages(memory);
  const long long stride = gridDim.x;
  if (BULK && threadIdx.x == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(stages.barriers + k);
    fence_proxy();
    for (int k = 0; k < STAGES; ++k) request(stages, k, source, blockIdx.x + k * stride, shape);
  }
  if (STAGED && threadIdx.x < THREADS)
    for (int k = 0; k < STAGES; ++k)
      request_vectors(stages, k, source, blockIdx.x + k * stride, shape);
  __syncthreads();
  if (threadIdx.x >= THREADS) return resolve(tile_entry, entry, descriptors, ledger, shape, epoch);

  Part part, next_part;
  Position position(place_of(blockIdx.x, shape), shape);
  const long long moved_rows = stride * TILE / shape.steps;
  const long long moved_steps = stride * TILE - moved_rows * shape.steps;
  int stage = 0, turn = -1;
  unsigned parity = 0;
  for (long long tile = blockIdx.x - stride, next = blockIdx.x; tile < shape.tiles;
       tile = next, next += stride, ++turn) {
    if (BULK && threadIdx.x == 0) bulk_wait_read();
    if (next < shape.tiles) {  // upsweep of the next tile
      const Place place = place_of(next, shape);
      next_part.walk = SEGMENTED ? Walk(position, shape, entry) : Walk();
      if (SEGMENTED) position.move(moved_rows, moved_steps, shape);
      read_items(stages, stage, parity, source, place, shape, next_part.items);
      watch.see(source, next_part.items, place, shape);
      const Span mine = upsweep(source, next_part.items, next_part.walk, place, shape, entry,
                                next_part.prefixes);
      const BlockScan scan = scan_tile(mine, totals[(turn + 1) % 2], place.whole);
      if (threadIdx.x >= THREADS - 32) {
        if (threadIdx.x == THREADS - 1) publish(descriptors, next, scan.total, epoch * 4);
        __syncwarp();
        announce_published(turn + 1);
      }
      if (STAGED) request_vectors(stages, stage, source, next + STAGES * stride, shape);
      else if (threadIdx.x == 0) request(stages, stage, source, next + STAGES * stride, shape);
      next_part.before = scan.before;
      if (++stage == STAGES) stage = 0, parity ^= 1;
    } else {
      synchronize();
    }
    if (tile >= 0) {  // downsweep
      await_resolved(turn);
      const Transfer::State state = after(part.before, tile_entry[turn % RING]);
      const Place place = place_of(tile, shape);
      if (GUARDED && !begins_row(part.walk) &&
          (!is_moderate(state) || is_doubtful(part.before, tile_entry[turn % RING], state)))
        mark_from(ledger, place, 0, shape);
      T w[Transfer::STATES][ITEMS];
      downsweep(source, part.items, part.walk, place, shape, entry, part.prefixes, state, w);
      if (GUARDED) mark_growth(ledger, place, w, shape);
      write_items(stages, results, tile, place, shape, w);
    }
    part = next_part;
  }
}

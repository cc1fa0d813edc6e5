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
DEVICE inline void mark_from(const RepairList& repair_list, const PartPosition& position, int k,
                             const Shape& shape) {
  const long long end = position.first + ITEMS < shape.total ? position.first + ITEMS : shape.total;
  long long element = REVERSE ? position.first + ITEMS - 1 - k : position.first + k;
  if (element >= end) element = end - 1;
  if (element < position.first) return;
  const long long row = element / shape.steps, step = element - row * shape.steps;
  const long long time = REVERSE ? shape.steps - 1 - step : step, last = time + ITEMS - 1;
  repair_list.add(row, time, last < shape.steps ? last : shape.steps - 1);
}

// Returns whether a row begins with the thread's first step: its carry-in comes from no map.
DEVICE inline bool is_row_start(const Walk& walk) { return SEGMENTED && walk.until == 0; }

// The first state of a thread, in time, near overflow, or ITEMS.
DEVICE inline int first_growth(const T (&w)[Transfer::STATES][ITEMS]) {
  int height[4] = {0, 0, 0, 0};
#pragma unroll
  for (int r = 0; r < ITEMS; ++r) height[r % 4] = max(height[r % 4], height_of(w[0][r]));
  if (is_height_in_range(max(max(height[0], height[1]), max(height[2], height[3])))) return ITEMS;
  int first = ITEMS;
#pragma unroll
  for (int k = ITEMS - 1; k >= 0; --k)
    if (!is_height_in_range(height_of(w[0][in_time(k)]))) first = k;
  return first;
}

// Marks the steps from such a state on, in all rows of the thread's part. Of vectors only the last one
// is tested: a thread computes its states as the loop does, and after inf or nan none is finite.
DEVICE inline void mark_growth(const RepairList& repair_list, const PartPosition& position,
                               const T (&w)[Transfer::STATES][ITEMS], const Shape& shape) {
  if constexpr (Transfer::STATES > 1) {
    Transfer::State last;
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q) last.v[q] = w[q][in_time(ITEMS - 1)];
    if (!is_in_range(last)) mark_from(repair_list, position, ITEMS - 1, shape);
    return;
  }
  const int first = first_growth(w);
  if (first == ITEMS) return;
  mark_from(repair_list, position, first, shape);
  if (SEGMENTED && !CROWDED) mark_from(repair_list, position, ITEMS - 1, shape);
  if (CROWDED)
    for (int k = first + 1; k < ITEMS; ++k) mark_from(repair_list, position, k, shape);
}

// Spine: the look-ahead warp.
DEVICE inline void resolve(Transfer::State (&tile_carry_in)[RING], const Entry& carry_ins,
                           const Unit* descriptors, const RepairList& repair_list,
                           const Shape& shape, unsigned epoch) {
  Spine spine = {carry_in_of(carry_ins, SEGMENTED ? -1 : 0, shape), 0};
  int round = 0;
  for (long long tile = blockIdx.x; tile < shape.tiles; tile += gridDim.x, ++round) {
    const long long first_tile = needed_from(tile, shape);
    await_published(round);
    Transfer::State state = tile == 0 ? spine.state : Transfer::State{};
    if (first_tile < tile)
      state = spine.advance(first_tile, tile, descriptors, epoch, [&](long long suspect_tile) {
        const int first_part = REVERSE ? THREADS - 1 : 0;
        mark_from(repair_list, {start_of(suspect_tile, shape) + first_part * ITEMS, true}, 0,
                  shape);
      });
    if (threadIdx.x % 32 == 0) tile_carry_in[round % RING] = state;
    __syncwarp();
    announce_resolved(round);
  }
}

struct Part {  // a thread's part of a tile, between its upsweep and its downsweep
  Items items;
  Walk walk;
  Prefixes prefixes;
  Span before;
};

// Möbius maps take as many instructions to scan as to sweep twice, and a third of them compared kinds of
// spans; half for w = s·w + t. They are known if no row begins and no step is missing.
DEVICE inline BlockScan scan_tile(const Span& mine, Span (&totals)[WARPS], bool whole) {
  if constexpr (!SEGMENTED)
    if (whole) return block_scan<true>(mine, totals);
  return block_scan(mine, totals);
}

struct Unwatched {  // ignores the items
  DEVICE void see(const Source&, const Items&, const PartPosition&, const Shape&) {}
};

template <class Watch>
DEVICE void determine_rows(const Source& source, const Entry& carry_ins,
                           Stored* const (&results)[Transfer::STATES], Unit* descriptors,
                           const RepairList& repair_list, const Shape& shape, unsigned epoch,
                           Watch&& watch) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Span totals[2][WARPS];
  __shared__ Transfer::State tile_carry_in[RING];
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
  if (threadIdx.x >= THREADS)
    return resolve(tile_carry_in, carry_ins, descriptors, repair_list, shape, epoch);

  Part part, next_part;
  Position position(position_of(blockIdx.x, shape), shape);
  const long long moved_rows = stride * TILE / shape.steps;
  const long long moved_steps = stride * TILE - moved_rows * shape.steps;
  int stage = 0, round = -1;
  unsigned parity = 0;
  for (long long tile = blockIdx.x - stride, next = blockIdx.x; tile < shape.tiles;
       tile = next, next += stride, ++round) {
    if (BULK && threadIdx.x == 0) bulk_wait_read();
    if (next < shape.tiles) {  // upsweep of the next tile
      const PartPosition part_position = position_of(next, shape);
      next_part.walk = SEGMENTED ? Walk(position, shape, carry_ins) : Walk();
      if (SEGMENTED) position.move(moved_rows, moved_steps, shape);
      read_items(stages, stage, parity, source, part_position, shape, next_part.items);
      watch.see(source, next_part.items, part_position, shape);
      const Span mine = upsweep(source, next_part.items, next_part.walk, part_position, shape,
                                carry_ins, next_part.prefixes);
      const BlockScan scan = scan_tile(mine, totals[(round + 1) % 2], part_position.whole);
      if (threadIdx.x >= THREADS - 32) {
        if (threadIdx.x == THREADS - 1) publish(descriptors, next, scan.total, tag_of(epoch));
        __syncwarp();
        announce_published(round + 1);
      }
      if (STAGED) request_vectors(stages, stage, source, next + STAGES * stride, shape);
      else if (threadIdx.x == 0) request(stages, stage, source, next + STAGES * stride, shape);
      next_part.before = scan.before;
      if (++stage == STAGES) stage = 0, parity ^= 1;
    } else {
      synchronize();
    }
    if (tile >= 0) {  // downsweep
      await_resolved(round);
      const Transfer::State state = after(part.before, tile_carry_in[round % RING]);
      const PartPosition part_position = position_of(tile, shape);
      if (GUARDED && !is_row_start(part.walk) &&
          (!is_in_range(state) || is_suspect(part.before, tile_carry_in[round % RING], state)))
        mark_from(repair_list, part_position, 0, shape);
      T w[Transfer::STATES][ITEMS];
      downsweep(source, part.items, part.walk, part_position, shape, carry_ins, part.prefixes,
                state, w);
      if (GUARDED) mark_growth(repair_list, part_position, w, shape);
      write_items(stages, results, tile, part_position, shape, w);
    }
    part = next_part;
  }
}

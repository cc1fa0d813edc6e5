// Long rows in one pass over memory, if states do not decay within a segment.
//
// A block filters tiles, assigned round robin. Each lane sums the responses of the states to LENGTH
// samples. The block joins these states by powers of A^LENGTH, and publishes the state after its tile.
// A separate warp computes the states before the block's tiles, and before the samples of each warp,
// from those that all blocks published. Meanwhile the block does the same for its next DEPTH tiles.
// Then each lane filters its samples, from shared memory.
#pragma once
#include "engines/cuda/lookahead.cuh"
#include "engines/cuda/memory/bulk.cuh"
#include "filters/cuda/propagate.cuh"

constexpr int UNITS = int(sizeof(State)) / 4;
constexpr int VECTOR = 16 / int(sizeof(E)), VECTORS = LENGTH / VECTOR, PITCH = VECTORS + 1 - VECTORS % 2;
static_assert(!BULK || PITCH == VECTORS, "a warp's samples are contiguous in shared memory");
constexpr int TILE = THREADS * LENGTH, STAGE = THREADS * PITCH;
// Tiles whose states are joined together, LANE_TILES by each lane.
constexpr int JOINED = 32 * LANE_TILES, RING = DEPTH + 2;
// Matrices of few states are in registers.
constexpr int REGISTER_CELLS = STATES <= 4 ? CELLS : 1;
// Vectors of samples that a lane filters at once. On an H100, order 4 on float32 ran at 0.75 of the
// floor with all of them, and at 0.74 with 2.
constexpr int AT_ONCE = STATES == 4 && sizeof(E) == 4 ? VECTORS : 2;

union Vector {
  uint4 word;
  E v[VECTOR];
  DEVICE Vector() {}
};

// By value, so that the instructions of a warp read constants instead of memory.
struct Steps {
  S sums[LENGTH][STATE_SIZE];  // responses of the states after LENGTH samples to each of them
  S joins[5][CELLS];           // A^(LENGTH·2^k)
};
// A^(LENGTH·k) and A^(32·LENGTH·k), [cell][k]; powers of A^TILE: 1 and LANE_TILES·2^k.
struct Joints {
  const S *lanes, *warps, *tiles;
};

// Return matrix · state + added, by the matrix of this lane.
DEVICE inline State advanced(const S* matrices, int lane, const State& state, State added) {
#pragma unroll
  for (int i = 0; i < STATES; ++i)
#pragma unroll
    for (int j = 0; j < columns_of(i); ++j)
      added.v[i] = multiply_add(matrices[(i * STATES + j) * 32 + lane], state.v[j], added.v[i]);
  return added;
}

DEVICE inline void publish(Unit* descriptors, long long index, const State& state, unsigned tag) {
  publish_words<UNITS>(descriptors + index * UNITS, state, tag);
}

DEVICE inline void synchronize() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }
DEVICE inline int resolved(int round) { return 2 + round % RING; }

// The look-ahead warp: the states before the tiles of a block.
struct Lookahead {
  const Unit* descriptors;
  const S* powers;
  unsigned tag;
  long long group;
  State state;  // before the group

  // Return the state before `tile` of a row from `first_tile` on. The state after `first_tile`
  // includes the row's carry-in.
  DEVICE State before(long long first_tile, long long tile) {
    const int lane = threadIdx.x % 32;
    S matrix[REGISTER_CELLS];
    for (int k = 0; k < REGISTER_CELLS; ++k) matrix[k] = powers[k];
    const S* const step = STATES <= 4 ? matrix : powers;
    if (first_tile >= group * JOINED) {  // Tiles before the row are left out.
      state = State();
      group = first_tile / JOINED;
    }
    for (;; ++group) {
      const long long first_of_lane = group * JOINED + lane * LANE_TILES;
      State tile_states[LANE_TILES] = {};
      unsigned missing = 0;
#pragma unroll
      for (int k = 0; k < LANE_TILES; ++k)
        missing |= unsigned(first_of_lane + k >= first_tile && first_of_lane + k < tile) << k;
      await_items<UNITS, LANE_TILES>(
          missing, [&](int k) { return descriptors + (first_of_lane + k) * UNITS; },
          [&](int) { return tag; },
          [&](int k, bool has_arrived, const Unit* units) {
            Packed<State> words;
#pragma unroll
            for (int u = 0; u < UNITS; ++u) words.word[u] = unsigned(units[u]);
            if (has_arrived) tile_states[k] = words.item;
          });
      State total = lane ? State() : state, part = State();
#pragma unroll
      for (int k = 0; k < LANE_TILES; ++k) {
        if (first_of_lane + k == tile) part = total;
        total = weighed(step, total, tile_states[k]);
      }
      total = scanned(total, lane, powers + CELLS);
      const long long number = tile - group * JOINED;
      if (number >= JOINED) {
        state = from_lane(total, 31);
        continue;
      }
      State earlier = from_below(total, 1);
      if (lane == 0) earlier = State();
      for (int k = int(number % LANE_TILES); k > 0; --k) earlier = weighed(step, earlier, State());
      for (int q = 0; q < STATES; ++q) part.v[q] = part.v[q] + earlier.v[q];
      return from_lane(part, int(number / LANE_TILES));
    }
  }
};

// Samples of a row in shared memory. With WARMS the first `warm` ones are those before the tile, from
// which the states before it come: the states before these have no effect.
struct Tile {
  // Of the row; its first sample; the number of samples, and how many of them are before the tile.
  long long row, number, start, count;
  int warm;
  DEVICE Tile(long long tile, const Shape& shape) {
    row = tile / shape.segments;
    number = tile - row * shape.segments;
    warm = WARMS && number ? int(shape.warm) : 0;
    const long long first = number * shape.length, left = shape.steps - first;
    start = row * shape.steps + first - warm;
    count = (left < shape.length ? left : shape.length) + warm;
  }
};

constexpr int WARP_BYTES = 32 * VECTORS * 16;

struct Samples {
  uint4* memory;
  const E* x;
  E* y;
  unsigned long long* barriers;  // [stage][warp] of bulk copies

  DEVICE E* of(int stage, int thread) const {
    return reinterpret_cast<E*>(memory + stage * STAGE + thread * PITCH);
  }
  // Each warp copies the samples of its lanes.
  template <class Visit> DEVICE void visit(int stage, Visit visit) const {
    const int warp = threadIdx.x / 32 * 32;
#pragma unroll 8
    for (int k = 0; k < VECTORS; ++k) {
      const int index = k * 32 + threadIdx.x % 32, thread = warp + index / VECTORS;
      const int item = index % VECTORS * VECTOR;
      visit(of(stage, thread) + item, thread * LENGTH + item);
    }
  }
  // The first sample of this warp in its tile, and whether the copy engine copies its samples.
  static DEVICE int first_of_warp() { return threadIdx.x / 32 * 32 * LENGTH; }
  static DEVICE bool is_bulk(const Tile& tile) {
    return BULK && first_of_warp() + 32 * LENGTH <= tile.count;
  }
  DEVICE void request(int stage, long long number, const Shape& shape) const {
    if (number < shape.outer * shape.segments) {
      const Tile tile(number, shape);
      const bool bulk = is_bulk(tile);
      if (BULK && is_elected()) {
        unsigned long long* const barrier = barriers + stage * WARPS + threadIdx.x / 32;
        bulk_wait_read();
        barrier_expect(barrier, bulk ? WARP_BYTES : 0);
        if (bulk)
          bulk_load(of(stage, threadIdx.x / 32 * 32), x + tile.start + first_of_warp(), WARP_BYTES, barrier);
      }
      __syncwarp();
      if (!bulk)
        visit(stage, [&](E* to, int item) {
          const E* const from = x + tile.start + item;
          if (item + VECTOR <= tile.count)
            copy_word(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from));
          else
            for (int e = 0; item + e < tile.count && e < VECTOR; ++e) to[e] = from[e];
        });
    }
    copies_commit();
  }
  DEVICE void wait(int stage, int phase) const {
    copies_wait_but<STAGES - 2 - DEPTH>();
    if (BULK) barrier_wait(barriers + stage * WARPS + threadIdx.x / 32, phase & 1);
    __syncwarp();
  }
  DEVICE void store(int stage, const Tile& tile) const {
    const int first = first_of_warp(), skipped = min(max(tile.warm - first, 0), 32 * LENGTH);
    if (is_bulk(tile)) {
      fence_proxy();
      __syncwarp();
      if (is_elected()) {
        if (skipped < 32 * LENGTH)
          bulk_store(y + tile.start + first + skipped, of(stage, threadIdx.x / 32 * 32) + skipped,
                     WARP_BYTES - skipped * sizeof(E));
        bulk_commit();
      }
      return;
    }
    __syncwarp();
    visit(stage, [&](const E* from, int item) {
      E* const to = y + tile.start + item;
      if (item < tile.warm) return;
      if (item + VECTOR <= tile.count)
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
      else
        for (int e = 0; item + e < tile.count && e < VECTOR; ++e) to[e] = from[e];
    });
    __syncwarp();
  }
};

// Return the states after all samples of a thread, from states of 0.
DEVICE inline State summed(const Steps& steps, const E* samples) {
  State state = {};
#pragma unroll
  for (int k = 0; k < LENGTH; k += VECTOR) {
    Vector vector;
    vector.word = *reinterpret_cast<const uint4*>(samples + k);
#pragma unroll
    for (int r = 0; r < VECTOR; ++r)
#pragma unroll
      for (int q = 0; q < STATES; ++q)
        state.v[q] = multiply_add(steps.sums[k + r][q], cast<S>(vector.v[r]), state.v[q]);
  }
  return state;
}

// Filter the samples of a thread in place.
DEVICE inline int filter_lane(const Coefficients& with, State& state, E* samples, int count) {
  int largest = 0;
  if (count == LENGTH) {
#pragma unroll(AT_ONCE)
    for (int k = 0; k < LENGTH; k += VECTOR) {
      uint4* const address = reinterpret_cast<uint4*>(samples + k);
      Vector vector;
      vector.word = *address;
#pragma unroll
      for (int r = 0; r < VECTOR; ++r) {
        vector.v[r] = cast<E>(advance(with, state, cast<S>(vector.v[r])));
        largest = max(largest, magnitude(vector.v[r]));
      }
      *address = vector.word;
    }
    return largest;
  }
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
    samples[k] = cast<E>(advance(with, state, cast<S>(samples[k])));
    largest = max(largest, magnitude(samples[k]));
  }
  return largest;
}

DEVICE void filter_tiles(const Arrays& arrays, const Coefficients& with, const Steps& steps,
                         const Joints& joints, Unit* descriptors, const Shape& shape, unsigned tag) {
  extern __shared__ __align__(128) unsigned char memory[];
  // The states before each warp's samples: from states of 0 before the tile, and from those alone.
  __shared__ State totals[RING][WARPS], starts[RING][WARPS], carry_ins[RING][WARPS];
  const long long tiles = shape.outer * shape.segments, stride = gridDim.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x >= THREADS) {
    if (WARMS) return;
    Lookahead ahead = {descriptors, joints.tiles, tag, 0, {}};
    int round = 0;
    for (long long number = blockIdx.x; number < tiles; number += stride, ++round) {
      const Tile tile(number, shape);
      State state = State();
      if (tile.number) state = ahead.before(number - tile.number, number);
      if (lane < WARPS)
        carry_ins[round % RING][lane] = advanced(joints.warps, lane, state, State());
      if (lane == 0)
        for (int q = 0; q < STATES; ++q) arrays.assumed[q * tiles + number] = state.v[q];
      __syncwarp();
      // Unless the block's next tile depends on this one, the warp would run ahead of the block.
      if (Tile(number + stride, shape).number >= stride) arrive(resolved(round), THREADS + 32);
      else meet(resolved(round), THREADS + 32);
    }
    return;
  }
  __shared__ unsigned long long barriers[STAGES * WARPS];
  if (BULK && lane == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(barriers + k * WARPS + warp);
    fence_proxy();
  }
  __syncwarp();
  const Samples samples = {reinterpret_cast<uint4*>(memory), arrays.x, arrays.y, barriers};
  for (int k = 0; k < STAGES; ++k) samples.request(k, blockIdx.x + k * stride, shape);
  const auto carry_in_of = [&](const Tile& tile) {
    State state = State();
    if (arrays.carry_in && tile.number == 0 && threadIdx.x == 0)
      for (int q = 0; q < STATES; ++q) state.v[q] = arrays.carry_in[q * shape.outer + tile.row];
    return state;
  };
  const auto count_of = [&](const Tile& tile) {
    const long long left = tile.count - threadIdx.x * LENGTH;
    return left < 0 ? 0 : left < LENGTH ? int(left) : LENGTH;
  };
  State below[DEPTH] = {};  // of the tiles in shared memory, the earliest first
  int round = -DEPTH;
  for (long long number = blockIdx.x - DEPTH * stride; number < tiles; number += stride, ++round) {
    State next = {};
    const long long later = number + DEPTH * stride;
    if (later < tiles) {
      const Tile tile(later, shape);
      const int upper = (round + DEPTH) % STAGES;
      samples.wait(upper, (round + DEPTH) / STAGES);
      State state = summed(steps, samples.of(upper, threadIdx.x));
      if (arrays.carry_in && tile.number == 0)
        state = weighed(steps.joins[0], carry_in_of(tile), state);
      state = scanned<5>(state, lane, steps.joins[0]);
      next = from_below(state, 1);
      State(&mine)[WARPS] = totals[(round + DEPTH) % RING];
      if (lane == 31) mine[warp] = state;
      if (threadIdx.x == 0) {
        arrays.tops[later] = 0;
        if (tile.number == 0) arrays.failures[tile.row] = 0;
      }
      synchronize();
      if (warp == WARPS - 1) {
        State total = lane < WARPS ? mine[lane] : State();
        for (int d = 1; d < WARPS; d *= 2) {
          const State joined = advanced(joints.warps, d, from_below(total, d), total);
          if (lane >= d) total = joined;
        }
        if (!WARMS && lane == WARPS - 1) publish(descriptors, later, total, tag);
        total = from_below(total, 1);
        if (lane < WARPS) starts[(round + DEPTH) % RING][lane] = lane ? total : State();
      }
    }
    // The outputs of the tile before have been stored by now.
    if (round >= 1) samples.request((round - 1) % STAGES, number + (STAGES - 1) * stride, shape);
    if (round >= 0) {
      const Tile tile(number, shape);
      const int stage = round % STAGES, count = count_of(tile);
      if (WARMS) synchronize();
      else meet(resolved(round), THREADS + 32);
      State state = starts[round % RING][warp];
      if (!WARMS)
        for (int q = 0; q < STATES; ++q)
          state.v[q] = state.v[q] + carry_ins[round % RING][warp].v[q];
      state = advanced(joints.lanes, lane, state, State());
      const State carry_in = carry_in_of(tile);
      for (int q = 0; q < STATES; ++q)
        state.v[q] = state.v[q] + (lane ? below[0].v[q] : carry_in.v[q]);
      if (WARMS && tile.warm && threadIdx.x == tile.warm / LENGTH)
        for (int q = 0; q < STATES; ++q) arrays.assumed[q * tiles + number] = state.v[q];
      const int largest = filter_lane(with, state, samples.of(stage, threadIdx.x), count);
      if (largest > TOP) arrays.tops[number] = 1;
      if (threadIdx.x == (tile.count - 1) / LENGTH)
        for (int q = 0; q < STATES; ++q) arrays.carry_outs[q * tiles + number] = state.v[q];
      samples.store(stage, tile);
    }
#pragma unroll
    for (int k = 0; k + 1 < DEPTH; ++k) below[k] = below[k + 1];
    below[DEPTH - 1] = next;
  }
  if (BULK) bulk_wait_read();
}

// Contiguous rows of small maps, read from memory once, and again from the L2 cache.
//
// Tiles of 32 segments are assigned round robin to persistent blocks, whose warps have four roles:
//   1. `summarise` computes the map of each segment, a vector a thread;
//   2. `compose` joins them and publishes the map of the tile;
//   3. `resolve` computes the state before the tile from published maps: of the tiles before it among
//      16 neighbours, of the groups before it among 16 such groups, and the state before these;
//   4. `determine` reads the tile again and writes its results.
// The last role follows the first by a tile or two, so that the second reading is from the cache.
#pragma once
#include "engines/cuda/memory/bulk.cuh"
#include "engines/cuda/memory/copies.cuh"
#include "engines/cuda/lookahead.cuh"
#include "scans/matrix/cuda/matrix.cuh"

constexpr int TILE = SEGMENTS * LENGTH, MATRIX = N * N;
constexpr int LANES = Pass::LANES, MAP = Pass::MAP;
constexpr int SUMMARISERS = SEGMENTS * LANES, JOINERS = 64, OTHERS = SUMMARISERS + JOINERS;  // threads
constexpr int MAPS = 43;  // of 32 segments, of 8 groups of 4, of 2 groups of 16, of all
static_assert(SEGMENTS == 32 && NEIGHBOURS == 16 && N % 2 == 0, "as the loops below assume");

// Steps of segments in their order, 16 bytes apart against bank conflicts.
struct Operands {
  double matrices[SEGMENTS][LENGTH * MATRIX + 2], vectors[SEGMENTS][LENGTH * N + 2];
};
struct Spine { double neighbours[2 * NEIGHBOURS][MAP], joined[5][MAP], before[N]; };
struct Memory {
  double results[TILE * N];
  Operands first, again;
  double maps[RING][MAPS][MAP], carry_ins[RING][N];
  Spine spines[SPINES];
};
static_assert(sizeof(Memory) <= MEMORY, "phases.py counts the bytes");

constexpr int UNITS = 2;  // of a published number
DEVICE inline void publish(Unit* descriptors, long long index, double number, unsigned tag) {
  publish_words<UNITS>(descriptors + index * UNITS, number, tag);
}
// A warp waits for `count` numbers, at most MOST.
template <int MOST>
DEVICE void receive(const Unit* descriptors, long long start, int count, unsigned tag,
                    double* numbers) {
  constexpr int EACH = (MOST + 31) / 32;
  const int lane = threadIdx.x % 32;
  unsigned missing = 0;
#pragma unroll
  for (int k = 0; k < EACH; ++k) missing |= unsigned(lane + 32 * k < count) << k;
  await_items<UNITS, EACH>(
      missing, [&](int k) { return descriptors + (start + lane + 32 * k) * UNITS; },
      [&](int) { return tag; },
      [&](int k, bool has_arrived, const Unit* units) {
        Packed<double> words;
        words.word[0] = unsigned(units[0]), words.word[1] = unsigned(units[1]);
        if (has_arrived) numbers[lane + 32 * k] = words.item;
      });
  __syncwarp();
}
// Barriers 0 and 1 are those of the block and of the summarising warps.
constexpr int SUMMARISED = 14, JOINED = 15;
static_assert(RING <= 4, "a block has 16 barriers");
DEVICE inline int published(int round) { return 2 + round % RING; }
DEVICE inline int resolved(int round) { return 2 + RING + round % RING; }
DEVICE inline int finished(int round) { return 2 + 2 * RING + round % RING; }

struct SinglePass {
  const Pass& pass;
  Memory& memory;
  Unit* descriptors;
  unsigned tag;
  long long row_tiles, tiles;  // of a row, of all

  DEVICE Range range(long long tile, int segment) const {
    const long long row = tile / row_tiles, steps = pass.sizes.steps;
    const long long first = tile % row_tiles * TILE + segment * LENGTH, last = first + LENGTH;
    return {row, 0, first < steps ? first : steps, last < steps ? last : steps, 0, false};
  }
  DEVICE int steps_of(long long tile) const {
    const long long left = pass.sizes.steps - tile % row_tiles * TILE;
    return int(left < TILE ? left : TILE);
  }
  // Requests a tile by some warps. Bulk copies of segments took 70 cycles each to issue.
  DEVICE void request(Operands& to, long long tile, int warp, int warps) const {
    if (tile >= tiles) return;
    for (int segment = warp; segment < SEGMENTS; segment += warps) {
      const Range r = range(tile, segment);
      const int count = int(r.end - r.begin);
      request_array<MATRIX>(to.matrices[segment], pass.model.matrices.at(r.outer, r.begin, 0), count);
      request_array<N>(to.vectors[segment], pass.model.vectors.at(r.outer, r.begin, 0), count);
    }
    copies_commit();
  }
  template <int WIDTH>
  DEVICE static void request_array(double* to, const double* from, int count) {
#pragma unroll
    for (int first = 0; first < LENGTH * WIDTH; first += 64) {
      const int k = first + threadIdx.x % 32 * 2;
      if (k < count * WIDTH)
        copy_word(reinterpret_cast<uint4*>(to + k),
                  reinterpret_cast<const uint4*>(from + (REVERSE ? k % WIDTH - k / WIDTH * WIDTH : k)));
    }
  }
  // The pass over operands in shared memory.
  DEVICE Pass over(const Operands& from, int segment, const Range& r) const {
    Pass local = pass;
    local.model.matrices = {from.matrices[segment] - r.begin * MATRIX, 0, MATRIX, 0};
    local.model.vectors = {from.vectors[segment] - r.begin * N, 0, N, 0};
    return local;
  }

  DEVICE void summarise() const {
    const int thread = threadIdx.x, segment = thread / LANES, lane = thread % LANES;
    int round = 0;
    request(memory.first, blockIdx.x, thread / 32, LANES);
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++round) {
      if (round >= RING) meet(finished(round), SUMMARISERS + 32);
      copies_wait_but<0>();
      meet(1, SUMMARISERS);
      const Range r = range(tile, segment);
      over(memory.first, segment, r)
          .template summarise_lanes<1>(r, lane, memory.maps[round % RING][segment]);
      meet(SUMMARISED, SUMMARISERS + JOINERS);
      request(memory.first, tile + gridDim.x, thread / 32, LANES);
    }
  }
  DEVICE void compose() const {
    const int thread = threadIdx.x - SUMMARISERS, group = thread / LANES, lane = thread % LANES;
    int round = 0;
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++round) {
      double(&maps)[MAPS][MAP] = memory.maps[round % RING];
      meet(SUMMARISED, SUMMARISERS + JOINERS);
#pragma unroll 1
      for (int first = 0, count = SEGMENTS; count > 1;) {
        const int groups = (count + 3) / 4, left = count - 4 * group;
        if (group < groups)
          pass.join(maps[first + 4 * group], left < 4 ? left : 4, lane, maps[first + count + group]);
        first += count, count = groups;
        meet(JOINED, JOINERS);
      }
      if (thread >= 32) continue;
      if (thread < MAP) publish(descriptors, tile * MAP + thread, maps[MAPS - 1][thread], tag);
      __syncwarp();
      arrive(published(round), 64);
    }
  }

  // The map of 16 neighbours, by a warp.
  DEVICE const double* join_neighbours(const double (*maps)[MAP], double (&joined)[5][MAP]) const {
    const int thread = threadIdx.x % 32, group = thread / LANES, lane = thread % LANES;
#pragma unroll 1
    for (int groups = 4; groups > 0; groups -= 3) {
      if (group < groups)
        pass.join(groups > 1 ? maps[4 * group] : joined[0], 4, lane, joined[groups > 1 ? group : 4]);
      __syncwarp();
    }
    return joined[4];
  }
  // The state after a map, by a warp, whose lanes have the number lane / N of states.
  DEVICE static double apply(const double* numbers, double w) {
    const Map& map = *reinterpret_cast<const Map*>(numbers);
    const int lane = threadIdx.x % 32, i = lane % N, j = lane / N % N;
    const Factors x = map.power[j] != 0.0 ? Factors(w, map.power[j]) : Factors(w);
    double sum = Pass::term(map.images[j][i], x);
#pragma unroll
    for (int distance = N; distance < MATRIX; distance *= 2)
      sum = add(sum, __shfl_sync(~0u, sum, lane ^ distance));
    const double offset = map.images[N][i];
    return __shfl_sync(~0u, map.starts ? offset : add(offset, sum), j);
  }
  DEVICE void resolve() const {
    constexpr int ALL = NEIGHBOURS * NEIGHBOURS;
    const int thread = threadIdx.x % 32, number = thread / N % N;
    const bool is_first = thread < MATRIX && thread % N == 0;  // lane of a number
    const long long row_groups = row_tiles / NEIGHBOURS + 1, row_states = row_tiles / ALL + 1;
    Unit* of_groups = descriptors + tiles * MAP * UNITS;
    Unit* of_states = of_groups + pass.sizes.outers * row_groups * MAP * UNITS;
    int round = threadIdx.x / 32 - OTHERS / 32 - 1;
    Spine& spine = memory.spines[round];
    double(*groups)[MAP] = spine.neighbours, (*members)[MAP] = groups + NEIGHBOURS;
    for (long long tile = blockIdx.x + round * (long long)gridDim.x; tile < tiles;
         tile += SPINES * (long long)gridDim.x, round += SPINES) {
      const long long row = tile / row_tiles, k = tile % row_tiles;
      const int member = k % NEIGHBOURS, group = k / NEIGHBOURS % NEIGHBOURS;
      const bool is_last = member == NEIGHBOURS - 1, is_end = is_last && group == NEIGHBOURS - 1;
      const long long first_group = row * row_groups + k / ALL * NEIGHBOURS;
      const long long state = row * row_states + k / ALL;
      meet(published(round), 64);
      receive<NEIGHBOURS * MAP>(descriptors, (tile - member) * MAP, (member + is_last) * MAP, tag,
                                members[0]);
      if (is_last) {
        const double* map = join_neighbours(members, spine.joined);
        if (thread < MAP) {
          publish(of_groups, (first_group + group) * MAP + thread, map[thread], tag);
          groups[group][thread] = map[thread];
        }
      }
      receive<NEIGHBOURS * MAP>(of_groups, first_group * MAP, group * MAP, tag, groups[0]);
      const double* map = is_end ? join_neighbours(groups, spine.joined) : nullptr;
      if (k >= ALL) receive<N>(of_states, state * N, N, tag, spine.before);
      double w = k >= ALL ? spine.before[number] : 0.0;
      if (is_end) {
        const double after = apply(map, w);
        if (is_first) publish(of_states, (state + 1) * N + number, after, tag);
      }
#pragma unroll 1
      for (int j = 0; j < group + member; ++j) w = apply(j < group ? groups[j] : members[j - group], w);
      if (is_first) memory.carry_ins[round % RING][number] = w;
      __syncwarp();
      arrive(resolved(round), 64);
    }
  }

  DEVICE void determine() const {
    const int segment = threadIdx.x % 32;
    int round = 0;
    request(memory.again, blockIdx.x, 0, 1);
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++round) {
      const double(&maps)[MAPS][MAP] = memory.maps[round % RING];
      meet(resolved(round), 64);
      double w[N];
#pragma unroll
      for (int i = 0; i < N; ++i) w[i] = memory.carry_ins[round % RING][i];
#pragma unroll 1
      for (int before = 0; before < segment;) {
        const int left = segment - before, steps = left >= 16 ? 16 : left >= 4 ? 4 : 1;
        pass.apply(maps[steps == 16 ? 40 : steps == 4 ? 32 + before / 4 : before], w);
        before += steps;
      }
      copies_wait_but<0>();
      bulk_wait_read();
      __syncwarp();
      const Range r = range(tile, segment);
      const Pass local = over(memory.again, segment, r);
      const int steps = steps_of(tile), first = segment * LENGTH;
#pragma unroll 1
      for (int k = 0; r.begin + k < r.end; ++k) {
        if (pass.is_start(r, r.begin + k)) pass.start(r, w);
        local.model.step_of(r, r.begin + k).advance(false, w);
        double* to = memory.results + (REVERSE ? steps - 1 - first - k : first + k) * N;
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = w[i];
      }
      fence_proxy();
      __syncwarp();
      if (segment == 0) {
        const long long first_step = tile % row_tiles * TILE, all = pass.sizes.steps;
        const long long index = r.outer * all + (REVERSE ? all - first_step - steps : first_step);
        bulk_store(pass.results + index * N, memory.results, steps * N * 8);
        bulk_commit();
      }
      request(memory.again, tile + gridDim.x, 0, 1);
      if (tile + RING * (long long)gridDim.x < tiles) arrive(finished(round), SUMMARISERS + 32);
    }
    bulk_wait_read();
  }
};

extern "C" __global__ void __launch_bounds__(OTHERS + 32 + 32 * SPINES, BLOCKS)
    single_pass_kernel(const Pass pass, Unit* descriptors, unsigned epoch) {
  extern __shared__ __align__(128) unsigned char memory[];
  const long long row_tiles = (pass.sizes.steps + TILE - 1) / TILE;
  const SinglePass solver = {pass, *reinterpret_cast<Memory*>(memory), descriptors, tag_of(epoch),
                             row_tiles, pass.sizes.outers * row_tiles};
  if (threadIdx.x < SUMMARISERS) solver.summarise();
  else if (threadIdx.x < OTHERS) solver.compose();
  else if (threadIdx.x < OTHERS + 32) solver.determine();
  else solver.resolve();
}

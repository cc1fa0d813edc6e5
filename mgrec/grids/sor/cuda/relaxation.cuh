// Successive over-relaxation: many sweeps for one reading and one writing, with the bits of the
// loop.
//
// A thread computes SWEEPS points a step, none of which needs another point of that step. For each
// band and group of sweeps, one warp sweeps a tile while another warp copies. The copying warp of
// the first group brings the tile after the next to shared memory. That of the last group writes
// the tile before. All of them exchange edges; a single group has two copying warps. All warps
// synchronise after each tile. Strips export edges to the next strip through memory, and blocks
// take strips in order.
#pragma once
#include "grids/sor/cuda/rows.cuh"

typedef word_of<int(sizeof(T))>::type Bits;

// Return the magnitude of a number as an integer; nan is larger than all numbers.
DEVICE inline Bits size_of(T value) {
  union { T value; Bits bits; } both;
  both.value = value;
  return both.bits << 1 >> 1;
}

struct alignas(16) Quad { T v[4]; };

// The values that a thread has before a step, for sweeps 1 to SWEEPS; sweep 0 is the grid that is
// read.
struct Point {
  T now[SWEEPS + 1];    // results of the last step
  T above[SWEEPS + 1];  // next values of the row above: above for sweep s, to the right for sweep s + 1
  T before[SWEEPS];     // the previous ones, which sweep s + 1 replaces
  T ahead;              // the value after `above` in sweep 0
  T keep, weight;
  Bits update;
  unsigned inside[SWEEPS + 1];  // points of the row of sweep s that are not on the border
  DEVICE Point(const Grids& all, const Band& band)
      : now(), above(), before(), ahead(), keep(T(all.keep)), weight(T(all.weight)), update(0),
        inside() {
#pragma unroll
    for (int s = 1; s <= SWEEPS; ++s) {
      const int row = band.first + lane() - s;
      if (row > 0 && row < band.rows - 1) inside[s] = band.columns - 2;
    }
  }
  DEVICE T relaxed(int s, T rhs) const {
    T around = above[s] + now[s];
    around = around + now[s - 1];
    around = around + above[s - 1];
    if (HAS_RHS) around = around - rhs;
    const T kept = keep * before[s - 1], added = weight * around;
    return kept + added;
  }
  // Compute a step. `column` is that of sweep 0. `arriving` are values of the thread before for the
  // next step, and `above_it` is the value that it read, for the step after the next.
  template <bool ALL_INSIDE>
  DEVICE void step(int column, T read, T above_it, const T (&arriving)[SWEEPS],
                   const T* rhs) {
    T fresh[SWEEPS + 1];
    fresh[0] = read;
#pragma unroll
    for (int s = 1; s <= SWEEPS; ++s) {
      const bool is_inside = ALL_INSIDE || unsigned(column - s - 1) < inside[s];
      const T old = before[s - 1];
      const T next = relaxed(s, HAS_RHS ? rhs[-s * RHS_PITCH - 3 * (s - 1)] : T(0));
      fresh[s] = is_inside ? next : old;
      if (IS_CHECKED && s == SWEEPS && is_inside) {
        const Bits size = size_of(next - old);
        update = size > update ? size : update;
      }
    }
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) before[s] = above[s];
    above[0] = ahead;
    ahead = above_it;
    now[0] = fresh[0];
#pragma unroll
    for (int s = 1; s <= SWEEPS; ++s) above[s] = arriving[s - 1], now[s] = fresh[s];
  }
};

// Return whether every point of a tile is inside the border.
DEVICE inline bool is_all_inside(const Band& band, int tile) {
  const int begin = tile * STEPS - band.shift;
  return band.first > SWEEPS && band.first + LANES <= band.rows &&
         begin - 2 * LANES - SWEEPS > 0 && begin + STEPS - 2 < band.columns;
}

// The addresses of a group's inputs and results of a tile in shared memory.
struct Places {
  const T* rhs;
  const Quad *read, *above, *in;
  Quad *computed, *computed_above, *out;
  DEVICE Places(const Band& band, int tile) {
    Shared& all = shared();
    const int n = band.number, g = band.group, turn = tile & 1;
    const T* row = g == 0 ? all.read[n][lane()] + tile % TILES_READ * STEPS
                          : all.computed[n][g - 1][turn][lane()];
    above = (const Quad*)row;
    read = (const Quad*)(row + (g == 0 ? READ_PITCH : PITCH));
    rhs = all.rhs[n][g][HAS_RHS ? lane() + SWEEPS : 0];
    if (HAS_RHS) rhs += HEAD + tile % TILES_OF_RHS * STEPS;
    computed_above = (Quad*)all.computed[n][g][turn][0];
    computed = (Quad*)all.computed[n][g][turn][lane() + 1];
    in = (const Quad*)all.edges[n][g][turn];
    out = (Quad*)all.edges[n + 1][g][turn];
  }
};

// The inputs of four steps, read from shared memory four steps before: stores do not delay them
// then.
struct Taken {
  Quad from[SWEEPS], read, above;
  DEVICE void take(const Places& at, int k) {
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) from[s] = at.in[s * (STEPS / 4) + k];
    read = at.read[k];
    above = at.above[k];
  }
};

// Sweep a tile. Values arrive from the thread before. The last thread passes the first one the
// inputs of the band. (With the selection after the shuffle, the compiler waits for the shuffle too
// early.)
template <bool ALL_INSIDE> DEVICE inline void sweep(const Band& band, Point& point, int tile) {
  const Places at(band, tile);
  const int column = tile * STEPS - 2 * (lane() + 1) - band.shift;
  const int before = (lane() + LANES - 1) % LANES;
  const bool is_first = lane() == 0, is_last = lane() == LANES - 1;
  Taken next;
  next.take(at, 0);
#pragma unroll 4
  for (int k = 0; k < STEPS / 4; ++k) {
    const Taken taken = next;
    next.take(at, (k + 1) % (STEPS / 4));
    Quad to[SWEEPS];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      T arriving[SWEEPS];
#pragma unroll
      for (int s = 0; s < SWEEPS; ++s) {
        to[s].v[u] = point.now[s + 1];
        arriving[s] = from_lane<false>(is_last ? taken.from[s].v[u] : to[s].v[u], before);
      }
      const int step = 4 * k + u;
      point.step<ALL_INSIDE>(column + step, taken.read.v[u], taken.above.v[u], arriving,
                             at.rhs + step);
    }
    at.computed[k] = to[SWEEPS - 1];
    if (GROUPS > 1 && is_first) at.computed_above[k] = taken.from[SWEEPS - 1];
    if (is_last)
#pragma unroll
      for (int s = 0; s < SWEEPS; ++s) at.out[s * (STEPS / 4) + k] = to[s];
  }
}

constexpr int SWEEPING = WARPS * GROUPS, CARRIERS = GROUPS > 1 ? GROUPS : 2;
static_assert(THREADS == (SWEEPING + WARPS * CARRIERS) * LANES, "the launch has all warps");

// Copy the rows and edges of a tile. `carrier` is the number of a warp among the copying warps of
// its band.
DEVICE inline void carry(const Grids& all, const Band& band, const Passage& passage, int carrier,
                         int tile) {
  const int tiles = int(all.tiles), edges = tiles - BEHIND, told = tile - 1 - BEHIND, asked = tile + 1;
  const bool is_reader = carrier == 0, is_writer = carrier == CARRIERS - 1;
  const bool leaves = !ALONE && (GROUPS > 1 || is_writer) && band.number == WARPS - 1 &&
                      band.strip < int(all.strips) - 1;
  const bool awaits = !ALONE && (GROUPS > 1 || is_reader) && band.number == 0 && band.strip > 0 &&
                      asked >= 0 && asked < edges && lane() < STEPS;
  if (leaves && told >= 0 && told < edges) passage.leave(all, band, told);
  Arrival arrival;
  if (awaits) {
    arrival.from = passage.place(all, band.unit - 1, band.group, asked);
    arrival.ask();
  }
  if (is_writer && tile > 0 && tile <= tiles) write_rows(all, band, tile - 1);
  if (tile >= -3 && tile + 2 < tiles) {
    if (is_reader) request_rows(all, band, tile + 2);
    if (HAS_RHS && carrier < GROUPS) request_rhs(all, band, tile + 2);
  }
  copies_commit();
  if (awaits) arrival.await(passage.tag(all, band.unit - 1), band.group, asked);
  copies_wait();
}

DEVICE inline void relax(const Grids& all, Unit* words = nullptr, unsigned epoch = 0) {
  const Passage passage = {words, epoch};
  constexpr int LAST = (BEHIND + 1) * (WARPS - 1) + GROUPS - 1;
  const int warp = threadIdx.x / LANES, tiles = int(all.tiles);
  const bool is_sweeping = warp < SWEEPING;
  const int own = is_sweeping ? warp : warp - SWEEPING, number = own % WARPS, turn = own / WARPS;
  for (int unit = blockIdx.x; unit < int(all.count * all.strips); unit += gridDim.x) {
    const Band band(all, unit, number, turn < GROUPS ? turn : GROUPS - 1);
    Point point(all, band);
    for (int phase = -3; phase <= tiles + LAST; ++phase) {
      const int tile = phase - (BEHIND + 1) * band.number - band.group;
      if (!is_sweeping) carry(all, band, passage, turn, tile);
      else if (tile >= 0 && tile < tiles) {
        if (is_all_inside(band, tile)) sweep<true>(band, point, tile);
        else sweep<false>(band, point, tile);
      }
      __syncthreads();
    }
    if (IS_CHECKED && is_sweeping && band.group == GROUPS - 1 && point.update != 0)
      atomicMax(all.updates + unit / int(all.strips), (unsigned long long)point.update);
  }
}

// The steps of a band: SWEEPS points a thread and step, none of which needs another of that step.
#pragma once
#include "grids/sor/cuda/rows.cuh"

template <int SIZE> struct bits_of { typedef unsigned long long type; };
template <> struct bits_of<4> { typedef unsigned type; };
typedef bits_of<sizeof(T)>::type Bits;

// The size of a number as an integer, which orders sizes, and nan after all of them.
DEVICE inline Bits size_of(T value) {
  union { T value; Bits bits; } both;
  both.value = value;
  return both.bits << 1 >> 1;
}

struct alignas(16) Quad { T v[4]; };

// What a thread knows before a step, of sweeps 1 to SWEEPS; sweep 0 is the grid that is read.
struct Point {
  T now[SWEEPS + 1];    // its own numbers of the last step
  T above[SWEEPS + 1];  // those of the row above that it needs next: over sweep s, right of s + 1
  T before[SWEEPS];     // and those before: what sweep s + 1 replaces
  T ahead;              // of sweep 0 the one after `above`
  T keep, weight;
  Bits update;
  unsigned inside[SWEEPS + 1];  // points of sweep s that are not on the border, in its row
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
  // `column` is that of sweep 0, `arriving` what the thread before has for the next step, and
  // `above_it` what it read: for the step after that.
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

// Whether every point of a tile is inside of the border.
DEVICE inline bool is_all_inside(const Band& band, int tile) {
  const int begin = tile * STEPS - band.shift;
  return band.first > SWEEPS && band.first + LANES <= band.rows &&
         begin - 2 * LANES - SWEEPS > 0 && begin + STEPS - 2 < band.columns;
}

// Where a group finds a tile's numbers, and where it leaves its own.
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

// What four steps take from shared memory, read four steps before: stores do not delay it then.
struct Taken {
  Quad from[SWEEPS], read, above;
  DEVICE void take(const Places& at, int k) {
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) from[s] = at.in[s * (STEPS / 4) + k];
    read = at.read[k];
    above = at.above[k];
  }
};

// What arrives comes from the thread before; to the first one, the last one sends what its band
// gets. (A choice behind the shuffle, not before it, is what the compiler waits for too early.)
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

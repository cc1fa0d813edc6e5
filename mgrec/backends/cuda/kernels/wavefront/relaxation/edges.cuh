// What the last thread of a strip computes in each sweep, on its way to the next strip.
#pragma once
#include "wavefront/relaxation/rows.cuh"

struct Passage {
  Unit* words;
  unsigned tag;
  // Of this thread's step in a tile, the first sweep.
  DEVICE Unit* place(const Grids& all, int unit, int tile) const {
    const long long tiles = all.tiles - BEHIND;
    return words + ((unit * tiles + tile) * SWEEPS * STEPS + lane()) * UNITS;
  }
  DEVICE void leave(const Grids& all, const Band& band, int tile) const {
    if (lane() >= STEPS) return;
    Unit* to = place(all, band.unit, tile);
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
      publish(to + s * STEPS * UNITS, shared().edges[WARPS][tile & 1][s][lane()], tag);
  }
};

// Words that are read long before they are looked at, so that other work hides their way.
struct Arrival {
  const Unit* from;
  Unit words[SWEEPS][UNITS];
  DEVICE void ask() {
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
#pragma unroll
      for (int u = 0; u < UNITS; ++u)
        words[s][u] = ((const volatile Unit*)from)[s * STEPS * UNITS + u];
  }
  DEVICE bool is_complete(unsigned tag) const {
    bool complete = true;
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
#pragma unroll
      for (int u = 0; u < UNITS; ++u) complete = complete && unsigned(words[s][u] >> 32) == tag;
    return complete;
  }
  DEVICE void await(unsigned tag, int tile) {
    while (!is_complete(tag)) ask();
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) {
      Number number;
#pragma unroll
      for (int u = 0; u < UNITS; ++u) number.word[u] = unsigned(words[s][u]);
      shared().edges[0][tile & 1][s][lane()] = number.value;
    }
  }
};

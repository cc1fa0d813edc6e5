// What the last thread of a strip computes in each sweep, on its way to the next strip.
//
// Strips share slots in turns. Whoever writes a slot again has got what was made of the edge that
// it held, so that this was read before. A strip that runs has blocks enough between it and any
// that is not done: three turns of slots are more, so that four tags tell all turns apart.
#pragma once
#include "grids/sor/cuda/rows.cuh"

struct Passage {
  Unit* words;
  unsigned epoch;
  DEVICE unsigned tag(const Grids& all, int unit) const {
    return tag_of(epoch) + (unit / int(all.slots) & 3) * 4;
  }
  // Of this thread's step in a tile, the first sweep of a group.
  DEVICE Unit* place(const Grids& all, int unit, int group, int tile) const {
    const long long tiles = all.tiles - BEHIND, slot = unit % int(all.slots);
    return words + (((slot * tiles + tile) * GROUPS + group) * SWEEPS * STEPS + lane()) * UNITS;
  }
  DEVICE void leave(const Grids& all, const Band& band, int tile) const {
    if (lane() >= STEPS) return;
    Unit* to = place(all, band.unit, band.group, tile);
    const T* from = &shared().edges[WARPS][band.group][tile & 1][0][lane()];
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
      publish(to + s * STEPS * UNITS, from[s * STEPS], tag(all, band.unit));
  }
};

// Words that are read long before they are looked at, so that other work hides their way.
struct Arrival {
  const Unit* from;
  Unit words[SWEEPS][UNITS];
  DEVICE void ask() {
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) load_words(words[s], from + s * STEPS * UNITS);
  }
  DEVICE bool is_complete(unsigned tag) const {
    bool complete = true;
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) complete = complete && has_tag(words[s], tag);
    return complete;
  }
  DEVICE void await(unsigned tag, int group, int tile) {
    while (!is_complete(tag)) ask();
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
      shared().edges[0][group][tile & 1][s][lane()] = value_of(words[s]);
  }
};

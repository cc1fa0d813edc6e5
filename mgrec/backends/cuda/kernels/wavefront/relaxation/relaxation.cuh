// Successive over-relaxation: many sweeps of one reading and one writing, with the loop's bits.
//
// Of every band and group of sweeps, one warp sweeps a tile while another carries: it brings the
// tile after the next to shared memory, writes the one before, and passes edges on. All meet after
// each tile. Strips tell edges to the next one through memory; blocks take strips in order.
#pragma once
#include "wavefront/relaxation/edges.cuh"
#include "wavefront/relaxation/sweep.cuh"

DEVICE inline void carry(const Grids& all, const Band& band, const Passage& passage, int tile) {
  const int tiles = int(all.tiles), edges = tiles - BEHIND, told = tile - 1 - BEHIND, asked = tile + 1;
  if (!ALONE && band.number == WARPS - 1 && band.strip < int(all.strips) - 1 && told >= 0 &&
      told < edges)
    passage.leave(all, band, told);
  const bool is_waiting = !ALONE && band.number == 0 && band.strip > 0 && asked >= 0 &&
                          asked < edges && lane() < STEPS;
  Arrival arrival;
  if (is_waiting) {
    arrival.from = passage.place(all, band.unit - 1, band.group, asked);
    arrival.ask();
  }
  if (band.group == GROUPS - 1 && tile > 0 && tile <= tiles) write_rows(all, band, tile - 1);
  if (tile >= -3 && tile + 2 < tiles) {
    if (band.group == 0) request_rows(all, band, tile + 2);
    if (HAS_RHS) request_rhs(all, band, tile + 2);
  }
  copies_commit();
  if (is_waiting) arrival.await(passage.tag(all, band.unit - 1), band.group, asked);
  copies_wait();
}

DEVICE inline void relax(const Grids& all, Unit* words, unsigned epoch) {
  const Passage passage = {words, epoch};
  constexpr int SWEEPING = WARPS * GROUPS, LAST = (BEHIND + 1) * (WARPS - 1) + GROUPS - 1;
  const int warp = threadIdx.x / LANES, own = warp % SWEEPING, tiles = int(all.tiles);
  for (int unit = blockIdx.x; unit < int(all.count * all.strips); unit += gridDim.x) {
    const Band band(all, unit, own % WARPS, own / WARPS);
    Point point(all, band);
    for (int phase = -3; phase <= tiles + LAST; ++phase) {
      const int tile = phase - (BEHIND + 1) * band.number - band.group;
      if (warp >= SWEEPING) carry(all, band, passage, tile);
      else if (tile >= 0 && tile < tiles) {
        if (is_all_inside(band, tile)) sweep<true>(band, point, tile);
        else sweep<false>(band, point, tile);
      }
      __syncthreads();
    }
    if (IS_CHECKED && warp < SWEEPING && band.group == GROUPS - 1 && point.update != 0)
      atomicMax(all.updates + unit / int(all.strips), (unsigned long long)point.update);
  }
}

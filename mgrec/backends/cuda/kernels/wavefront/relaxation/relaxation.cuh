// Successive over-relaxation: SWEEPS sweeps of one reading and one writing, with the loop's bits.
//
// Of every band, one warp sweeps a tile while another carries: it brings the tile after the next
// to shared memory and writes the one before. All meet after each tile. Strips pass their edges
// on through memory, from a unit to the next one; blocks take units in order.
#pragma once
#include "wavefront/relaxation/edges.cuh"
#include "wavefront/relaxation/sweep.cuh"

DEVICE inline void carry(const Grids& all, const Band& band, const Passage& passage, int tile) {
  const int told = tile - 1 - BEHIND, asked = tile + 1, tiles = int(all.tiles);
  if (!ALONE && band.number == WARPS - 1 && band.strip < int(all.strips) - 1 && told >= 0 &&
      told < tiles - BEHIND)
    passage.leave(all, band, told);
  const bool is_waiting = !ALONE && band.number == 0 && band.strip > 0 && asked >= 0 &&
                          asked < tiles - BEHIND && lane() < STEPS;
  Arrival arrival;
  if (is_waiting) {
    arrival.from = passage.place(all, band.unit - 1, asked);
    arrival.ask();
  }
  if (tile > 0 && tile <= tiles) write_rows(all, band, tile - 1);
  if (tile >= -3 && tile + 2 < tiles) {
    request_rows(all, band, tile + 2);
    if (HAS_RHS) request_rhs(all, band, tile + 2);
  }
  copies_commit();
  if (is_waiting) arrival.await(passage.tag, asked);
  copies_wait();
}

DEVICE inline void relax(const Grids& all, Unit* words, unsigned epoch) {
  const Passage passage = {words, tag_of(epoch)};
  const int number = threadIdx.x / LANES, tiles = int(all.tiles);
  const bool is_sweeping = number < WARPS;
  for (int unit = blockIdx.x; unit < int(all.count * all.strips); unit += gridDim.x) {
    const Band band(all, unit, number % WARPS);
    Point point(all, band);
    for (int phase = -3; phase <= tiles + (BEHIND + 1) * (WARPS - 1); ++phase) {
      const int tile = phase - (BEHIND + 1) * band.number;
      if (!is_sweeping) carry(all, band, passage, tile);
      else if (tile >= 0 && tile < tiles) {
        if (is_all_inside(band, tile)) sweep<true>(band, point, tile);
        else sweep<false>(band, point, tile);
      }
      __syncthreads();
    }
    if (IS_CHECKED && is_sweeping && point.update != 0)
      atomicMax(all.updates + unit / int(all.strips), (unsigned long long)point.update);
  }
}

// Successive over-relaxation: many sweeps of one reading and one writing, with the loop's bits.
//
// Of every band and group of sweeps, one warp sweeps a tile while another carries: the first
// group's brings the tile after the next to shared memory, the last one's writes the tile before,
// and all pass edges on; a group that is alone has both. All meet after each tile. Strips tell
// edges to the next one through memory; blocks take strips in order.
#pragma once
#include "grids/sor/cuda/edges.cuh"
#include "grids/sor/cuda/sweep.cuh"

constexpr int SWEEPING = WARPS * GROUPS, CARRIERS = GROUPS > 1 ? GROUPS : 2;
static_assert(THREADS == (SWEEPING + WARPS * CARRIERS) * LANES, "the launch has all warps");

// `carrier` is the number of a warp among those of its band.
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

DEVICE inline void relax(const Grids& all, Unit* words, unsigned epoch) {
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

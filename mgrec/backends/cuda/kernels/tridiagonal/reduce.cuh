// Partitions reduced to their two interface rows: what they say of the unknowns at their ends.
#pragma once
#include "tridiagonal/partition.cuh"
#include "tridiagonal/interface.cuh"

DEVICE inline void reduce_partitions(const System& system) {
  const Place place(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, place);
  Held<T> held = Held<T>::copies();
  Pivots<T> seen;
  for (int group = 0; group * PACK < place.length; ++group) {
    const Pack dl = tile.load(0, group), d = tile.load(1, group), du = tile.load(2, group),
               b = tile.load(3, group);
#pragma unroll
    for (int r = 0; r < PACK; ++r) {
      if (group * PACK + r >= place.length) break;
      const Row<T, 4> row = scaled_row(dl.v[r], d.v[r], du.v[r], b.v[r], seen.odd);
      Inverse<T> inverse(T(1));
      const Row<T, 6> pivot = advance(held, row, inverse);
      seen.take(magnitude(pivot[0]));
    }
  }
  if (place.is_there) {
    const long long cell = place.line(system) * system.parts + place.part;
    write_cell(system.cells + 10 * cell, held, seen);
  }
}

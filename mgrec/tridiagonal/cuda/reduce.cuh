// Partitions reduced to their two interface rows: what they say of the unknowns at their ends.
#pragma once
#include "tridiagonal/cuda/halves.cuh"

DEVICE inline void reduce_partitions(const System& system) {
  const Place place(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, place);
  Halves halves;
  Pivots<T> seen;
  halves.eliminate<false>(
      tile, place.length, seen.odd,
      [&](bool, const Group&, int, const Row<T, 6>& pivot, const Inverse<T>&) {
        seen.take(magnitude(pivot[0]));
      });
  Row<T, 7> pivot;
  Row<T, 6> second;
  join_halves(halves.upper, halves.lower, seen, pivot, second);
  if (place.is_there) {
    const long long cell = place.line(system) * system.parts + place.part;
    write_cell(system.cells + 10 * cell, halves.upper, seen);
  }
}

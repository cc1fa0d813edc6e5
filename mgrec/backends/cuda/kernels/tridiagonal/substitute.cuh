// The unknowns of partitions whose cuts are known: the elimination is done again, and its pivots
// take the place of the rows in shared memory.
#pragma once
#include "tridiagonal/partition.cuh"
#include "tridiagonal/interface.cuh"

struct Ends { T before, first, last, after; };

// Pivots of the unknowns -1 ... length - 2, each at the row that was eliminated with it: what the
// rest is multiplied by, two coefficients, and what is known.
DEVICE inline void factor_partition(Tile& tile, int length, const Ends& ends) {
  Held<T> held = Held<T>::copies();
  T odd = T(0);
  for (int group = 0; group * PACK < length; ++group) {
    Pack dl = tile.load(0, group), d = tile.load(1, group), du = tile.load(2, group),
         b = tile.load(3, group);
#pragma unroll
    for (int r = 0; r < PACK; ++r) {
      if (group * PACK + r >= length) break;
      const Row<T, 4> row = scaled_row(dl.v[r], d.v[r], du.v[r], b.v[r], odd);
      Inverse<T> inverse(T(1));
      const Row<T, 6> pivot = advance(held, row, inverse);
      dl.v[r] = inverse.value();
      d.v[r] = pivot[1];
      du.v[r] = pivot[2];
      b.v[r] = minus_product(minus_product(pivot[5], pivot[3], ends.before), pivot[4], ends.first);
    }
    tile.store(0, group, dl);
    tile.store(1, group, d);
    tile.store(2, group, du);
    tile.store(3, group, b);
  }
}

// x in place of operand 3. The pivot at row i gives x[i-1], so a group of rows gives the last
// unknown of the group before it.
DEVICE inline void substitute_partition(Tile& tile, int length, const Ends& ends) {
  T near = ends.last, far = ends.after;
  for (int group = (length - 1) / PACK; group >= 0; --group) {
    const Pack inverse = tile.load(0, group), one = tile.load(1, group), two = tile.load(2, group);
    Pack x = tile.load(3, group);
#pragma unroll
    for (int r = PACK - 1; r >= 0; --r) {
      const int row = group * PACK + r;
      if (row >= length) continue;
      const T rest = minus_product(minus_product(x.v[r], two.v[r], far), one.v[r], near);
      x.v[r] = near;
      far = near;
      near = row == 1 ? ends.first : rest * inverse.v[r];
    }
    tile.store(3, group, x);
  }
}

DEVICE inline void substitute_partitions(const System& system) {
  const Place place(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, place);
  const T* cut = system.cuts + 2 * (place.line(system) * (system.parts + 1) + place.part);
  const Ends ends = {cut[0], cut[1], cut[2], cut[3]};
  factor_partition(tile, place.length, ends);
  substitute_partition(tile, place.length, ends);
  store_tile(system, place);
}

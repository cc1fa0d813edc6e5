// The unknowns of partitions whose cuts are known: the elimination is done again, and its pivots
// take the place of the rows in shared memory.
#pragma once
#include "tridiagonal/cuda/halves.cuh"

// Pivots of the unknowns but those in the middle, each at the row that was eliminated with it:
// what the rest is multiplied by, two coefficients, and what is known.
DEVICE inline Cut<T> factor_partition(Tile& tile, int length, const Around<T>& ends) {
  Halves halves;
  T odd = T(0);
  halves.eliminate<true>(
      tile, length, odd,
      [&](bool is_lower, Group& group, int r, const Row<T, 6>& pivot, const Inverse<T>& inverse) {
        const T before = is_lower ? ends.after : ends.before;
        const T first = is_lower ? ends.last : ends.first;
        group.v[0].v[r] = inverse.value();
        group.v[1].v[r] = pivot[1];
        group.v[2].v[r] = pivot[2];
        group.v[3].v[r] = minus_product(minus_product(pivot[5], pivot[3], before), pivot[4], first);
      });
  if (length <= MIDDLE) return {ends.last, ends.after};
  Pivots<T> seen;
  Row<T, 7> pivot;
  Row<T, 6> second;
  join_halves(halves.upper, halves.lower, seen, pivot, second);
  Cut<T> middle = Link<T>(pivot, second).cut(ends);
  if (length == MIDDLE + 1) middle.below = ends.last;
  return middle;
}

// The unknown beyond x = near, of which far is the one before, by the pivot at a row.
DEVICE inline T next_unknown(const Group& group, int r, T near, T far) {
  const T rest = minus_product(group.v[3].v[r], group.v[2].v[r], far);
  return minus_product(rest, group.v[1].v[r], near) * group.v[0].v[r];
}

// x in place of operand 3. The pivot at row i gives x[i-1], in the lower half x[i+1].
DEVICE inline void substitute_partition(Tile& tile, int length, const Around<T>& ends,
                                        const Cut<T>& middle) {
  T near = middle.above, far = middle.below, back_near = middle.below, back_far = middle.above;
  for (int step = 0; step < GROUPS / 2; ++step) {
    const int up = GROUPS / 2 - 1 - step, down = GROUPS / 2 + step;
    Group one, other;
    one.load(tile, up);
    other.load(tile, down);
#pragma unroll
    for (int r = 0; r < PACK; ++r) {
      const int back = PACK - 1 - r, row = up * PACK + back, back_row = down * PACK + r;
      const T x = next_unknown(one, back, near, far);
      const T back_x = next_unknown(other, r, back_near, back_far);
      one.v[3].v[back] = near;
      other.v[3].v[r] = back_near;
      if (row < length) {
        far = near;
        near = row == 1 ? ends.first : x;
      }
      back_far = back_near;
      back_near = back_row == length - 2 ? ends.last : back_x;
    }
    tile.store(3, up, one.v[3]);
    tile.store(3, down, other.v[3]);
  }
}

DEVICE inline void substitute_partitions(const System& system) {
  const Place place(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, place);
  const T* cut = system.cuts + 2 * (place.line(system) * (system.parts + 1) + place.part);
  const Around<T> ends = {cut[0], cut[1], cut[2], cut[3]};
  const Cut<T> middle = factor_partition(tile, place.length, ends);
  substitute_partition(tile, place.length, ends, middle);
  store_tile(system, place);
}

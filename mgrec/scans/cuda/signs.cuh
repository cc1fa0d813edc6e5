// The signs of all coefficients of one row, which a single pass reads.
//
// An infinite state after the prefix changes its sign with every negative coefficient, and becomes nan
// by a coefficient of 0: the summary of the row needs the signs.
#pragma once
#include "scans/cuda/rows/determine.cuh"

// Bits of which the first is the sign; and bits that are 0 if the number is 0.
DEVICE inline int sign_bits(float x) { return bits_of(x); }
DEVICE inline int sign_bits(double x) { return top_bits_of(x); }
DEVICE inline int size_bits(float x) { return bits_of(x) & 0x7fffffff; }
DEVICE inline int size_bits(double x) {
  return (top_bits_of(x) & 0x7fffffff) | int(low_bits_of(x) != 0);
}

struct Signs {
  int turned = 0, least = 0x7fffffff;

  DEVICE void see(const Source& source, const Items& items, const PartPosition& position,
                  const Shape& shape) {
    if (position.whole) return see(source, items, [](int) { return true; });
    see(source, items, [&](int r) { return position.first + r < shape.total; });
  }
  template <class Has> DEVICE void see(const Source& source, const Items& items, Has has) {
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
      if (!has(r)) continue;
      const T s = source.map(items, r).v[0];
      turned ^= sign_bits(s);
      least = min(least, size_bits(s));
    }
  }
  // Combines the signs of all warps of all blocks.
  DEVICE void combine(Told* told) const {
    int all = turned, smallest = least;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      all ^= __shfl_down_sync(ALL, all, distance);
      smallest = min(smallest, __shfl_down_sync(ALL, smallest, distance));
    }
    if (threadIdx.x % 32 > 0) return;
    if (all < 0) atomicXor(&told->is_turned, 1u);
    if (smallest == 0) told->has_zero = 1;
  }
};

// A finite response at every q-th sample: y_m = Σ_k taps_k · x_(m·q + delay − k), summed from the first
// tap to the last. Samples outside of the signal have no terms.
//
// A thread computes RESULTS consecutive results of a row, so that it reads and casts each sample once.
#pragma once

struct Shape {
  long long outer, steps, inner, results;
  long long start, q, taps;  // sample of the first tap of result 0
};
struct Arrays {
  const X* x;
  Y* y;
};

DEVICE void respond(const Arrays& arrays, const E* taps, const Shape& shape, long long id) {
  const long long groups = (shape.results + RESULTS - 1) / RESULTS, column = id % shape.inner;
  const long long group = id / shape.inner % groups, o = id / shape.inner / groups;
  if (o >= shape.outer) return;
  const long long first = group * RESULTS, left = shape.results - first;
  const long long start = shape.start + first * shape.q;
  const X* const x = arrays.x + o * shape.steps * shape.inner + column;
  const long long latest = start + (RESULTS - 1) * shape.q, earliest = start - shape.taps + 1;
  long long s = latest < shape.steps ? latest : shape.steps - 1;
  const int q = int(shape.q), count = int(shape.taps);
  E sum[RESULTS] = {};
  int tap = int(start - s);  // of the first result
#pragma unroll 4
  for (; s >= earliest && s >= 0; --s, ++tap) {
    const E value = cast<E>(x[s * shape.inner]);
#pragma unroll
    for (int r = 0; r < RESULTS; ++r) {
      const int k = tap + r * q;
      if (k >= 0 && k < count) sum[r] = sum[r] + value * taps[k];
    }
  }
  Y* const y = arrays.y + (o * shape.results + first) * shape.inner + column;
#pragma unroll
  for (int r = 0; r < RESULTS; ++r)
    if (r < left) y[r * shape.inner] = cast<Y>(sum[r]);
}

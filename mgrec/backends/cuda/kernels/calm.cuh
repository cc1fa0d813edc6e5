// A tile of w = s·w + t in which nothing can go wrong is reduced to three numbers.
//
// Guarded maps (phases/affine_growth.py) take some 100 instructions to compose. Where |s| <= 1 and t
// is far from overflow no product grows and no state returns from 0, so that mantissa, exponent and
// offset say all: the reduction then runs at the speed of memory instead of a third of it.
#pragma once
#include "block.cuh"

struct Calm {
  T mantissa, exponent, offset;
};

template <class U = T> DEVICE inline Calm after_calm(const Calm& earlier, const Calm& later) {
  const U product = later.mantissa * earlier.mantissa;
  const bool is_small = fabs(product) < U(0.5);
  const int shift = int(fmax(later.exponent, U(-5000)));
  const U carried = np_ldexp(later.mantissa * earlier.offset, shift);
  return {is_small ? 2 * product : product,
          later.exponent + earlier.exponent - (is_small ? U(1) : U(0)), carried + later.offset};
}

// One thread's steps; false where the guarded maps must decide. U is T: other files that include
// this one may have a T that is not real.
template <class Has, class U = T>
DEVICE inline bool fold_calm(const Source& source, const Items& items, Has has, Calm& calm) {
  U product = U(1), offset = U(0), largest = U(0), smallest = U(1), term = U(0);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int r = REVERSE ? ITEMS - 1 - k : k;
    if (!has(r)) continue;
    U step[Transfer::OPERANDS];
    source.operands(items, r, step);
    product *= step[0];
    offset = step[0] * offset + step[1];
    largest = fmax(largest, fabs(step[0]));
    smallest = fmin(smallest, fabs(step[0]));
    term = fmax(term, fabs(step[1]));
  }
  // With |s| <= 1 products only fall: where the last one is normal, so are all. fmax and fmin leave
  // nan out; product and offset do not.
  const U least = sizeof(U) == 4 ? U(1.2e-38) : U(2.3e-308);
  const U most = sizeof(U) == 4 ? U(1e14) : U(1e275);
  calm = {frexp_mantissa(product), U(frexp_exponent(product)), offset};
  const bool is_normal = fabs(product) >= least || (product == U(0) && smallest == U(0));
  return is_normal && largest <= U(1) && term <= most && offset == offset;
}

// To ask of each step whether it exists takes as many instructions as to fold it.
template <class Has> DEVICE inline bool fold_part(const Source& source, const Items& items,
                                                  bool whole, Has has, Calm& calm) {
  if (whole) return fold_calm(source, items, [](int) { return true; }, calm);
  return fold_calm(source, items, has, calm);
}

template <class U = T> DEVICE inline Span guarded_of(const Calm& calm) {
  return span_of(Transfer::Map{{calm.mantissa, calm.exponent, calm.offset, T(0.5), T(1), T(0.5),
                                T(1), T(0)}});
}

template <class U = T> DEVICE inline Calm calm_from_above(const Calm& calm, int distance) {
  return {__shfl_down_sync(ALL, calm.mantissa, distance),
          __shfl_down_sync(ALL, calm.exponent, distance),
          __shfl_down_sync(ALL, calm.offset, distance)};
}

// Lane 0 receives the join of the first `width` lanes.
template <class U = T> DEVICE inline Calm reduce_calm(Calm calm, int lane, int width) {
#pragma unroll
  for (int distance = 1; distance < width; distance *= 2) {
    const Calm later = calm_from_above<U>(calm, distance);
    if (lane % (2 * distance) == 0 && lane + distance < width) calm = after_calm<U>(calm, later);
  }
  return calm;
}

// The join of a block's threads, in thread 0. False, in every thread, where one of them is not
// calm. `load_next` is called once all have read their items: what follows would hold up the next loads.
template <class Has, class Load>
DEVICE inline bool join_calm(const Source& source, const Items& items, bool whole, Has has,
                             Load load_next, Calm (&totals)[32], Span& total) {
  Calm calm;
  if (!__syncthreads_and(fold_part(source, items, whole, has, calm))) return false;
  load_next();
  const int lane = threadIdx.x % 32;
  calm = reduce_calm(calm, lane, 32);
  if (lane == 0) totals[threadIdx.x / 32] = calm;
  __syncthreads();
  if (threadIdx.x < 32) total = guarded_of(reduce_calm(totals[lane < WARPS ? lane : 0], lane, WARPS));
  return true;
}

// The same for columns: every lane joins its own over the warps of the block.
template <class Has, class Load>
DEVICE inline bool join_calm(const Source& source, const Items& items, bool whole, Has has,
                             Load load_next, Calm (&totals)[WARPS][32], Span& total) {
  Calm calm;
  if (!__syncthreads_and(fold_part(source, items, whole, has, calm))) return false;
  load_next();
  const int lane = threadIdx.x % 32;
  totals[threadIdx.x / 32][lane] = calm;
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int k = 1; k < WARPS; ++k) calm = after_calm(calm, totals[k][lane]);
    total = guarded_of(calm);
  }
  return true;
}

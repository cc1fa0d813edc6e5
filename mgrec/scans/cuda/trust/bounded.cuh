// The steps of a thread of w = s·w + t by plain numbers, if all are safe.
//
// Guarded maps (scans/summaries.py) take some 100 instructions to compose, plain numbers 12. *Safe*
// steps are safe: all products of first or last coefficients stay far from overflow and underflow,
// and their guarded map is made once, from the products. *Bounded* steps also have |s| <= 1: no
// product grows and no state returns from 0, so that mantissa, exponent and offset suffice, also
// for whole tiles.
#pragma once
#include "scans/cuda/spans.cuh"

struct BoundedMap {
  T mantissa;
  int exponent;
  T offset;
};

constexpr int NORMALISED = 6;      // steps between splits of a product
constexpr int FAINT = -(1 << 29);  // smallest exponent: no state has an effect

// Mantissa and exponent of a normal number; sets is_normal if it is one.
DEVICE inline float split(float x, int& exponent, bool& is_normal) {
  const int field = bits_of(x) >> 23 & 255;
  exponent = field - 126;
  is_normal = field > 0 && field < 253;
  return x * number_of((253 - field) << 23, x);
}
DEVICE inline double split(double x, int& exponent, bool& is_normal) {
  const int field = top_bits_of(x) >> 20 & 2047;
  exponent = field - 1022;
  is_normal = field > 0 && field < 2045;
  return x * number_of((2045 - field) << 20, x);
}

// x · 2^exponent for exponents up to 1, by two factors, which scale any number to 0.
DEVICE inline T fade(T x, int exponent) {
  const int e = max(exponent, sizeof(T) == 4 ? -250 : -2040), half = e >> 1;
  return x * power_of_two(half, T()) * power_of_two(e - half, T());
}

DEVICE inline BoundedMap compose_bounded(const BoundedMap& earlier, const BoundedMap& later) {
  const T product = later.mantissa * earlier.mantissa;
  const bool is_small = fabs(product) < T(0.5);
  const int exponent = later.exponent + earlier.exponent - int(is_small);
  return {is_small ? 2 * product : product, max(exponent, FAINT),
          fade(later.mantissa * earlier.offset, later.exponent) + later.offset};
}

// The steps of one thread.
struct Part {
  BoundedMap bounded;
  T growth, rebound;
  bool is_bounded, is_safe;
};

template <class Has>
DEVICE inline Part fold_part(const Source& source, const Items& items, Has has) {
  T mantissa = T(1), product = T(1), offset = T(0), growth = T(1), rebound = T(1);
  T highest = T(1), least = T(1), largest = T(0);
  int exponent = 0;
  bool is_zero = false, is_normal = true;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int r = REVERSE ? ITEMS - 1 - k : k;
    if (has(r)) {
      T step[Transfer::OPERANDS];
      source.operands(items, r, step);
      const T size = fabs(step[0]);
      mantissa *= step[0];
      product *= step[0];
      offset = step[0] * offset + step[1];
      growth = fmax(growth, fabs(product));
      least = fmin(least, fabs(product));
      rebound = fmax(size * rebound, T(1));
      highest = fmax(highest, rebound);
      largest = fmax(largest, fmax(fabs(step[1]), fabs(offset)));
      is_zero = is_zero || step[0] == T(0);
    }
    if (k % NORMALISED == NORMALISED - 1 || k == ITEMS - 1) {
      int shift;
      bool is_split;
      mantissa = split(mantissa, shift, is_split);
      exponent += shift;
      is_normal = is_normal && is_split;
    }
  }
  // fmax and fmin ignore nan; product and offset do not.
  const bool is_number = product == product && offset == offset;
  const T most = sizeof(T) == 4 ? T(1e14) : T(1e275), top = sizeof(T) == 4 ? T(1e26) : T(1e286);
  const T far = sizeof(T) == 4 ? T(1e30) : T(1e140),
          near = sizeof(T) == 4 ? T(1.2e-38) : T(2.3e-308);
  Part part = {{mantissa, exponent, offset}, growth, rebound, false, false};
  if (is_zero) part.bounded = {T(0), 0, offset};
  part.is_bounded = is_number && highest <= T(1) && largest <= most && (is_normal || is_zero);
  part.is_safe = is_number && highest <= far && growth <= far && least >= near && largest <= top &&
                 is_normal;
  return part;
}

// To test whether a step exists takes as many instructions as to fold it.
template <class Has> DEVICE inline Part fold_part(const Source& source, const Items& items,
                                                  bool whole, Has has) {
  return whole ? fold_part(source, items, [](int) { return true; }) : fold_part(source, items, has);
}

DEVICE inline Span guarded_of(const BoundedMap& bounded, T growth, T rebound) {
  return span_of(Transfer::Map{{bounded.mantissa, T(bounded.exponent), bounded.offset,
                                frexp_mantissa(growth), T(frexp_exponent(growth)),
                                frexp_mantissa(rebound), T(frexp_exponent(rebound)), T(0)}});
}
DEVICE inline Span guarded_of(const BoundedMap& bounded) { return guarded_of(bounded, T(1), T(1)); }

// Return the map of a part; unless it is bounded or safe, it is composed step by step from guarded
// maps.
template <class Steps> DEVICE inline Span guarded_of(const Part& part, Steps step_by_step) {
  if (part.is_bounded) return guarded_of(part.bounded);
  if (part.is_safe) return guarded_of(part.bounded, part.growth, part.rebound);
  return step_by_step();
}

DEVICE inline BoundedMap bounded_from_above(const BoundedMap& bounded, int distance) {
  return {__shfl_down_sync(ALL, bounded.mantissa, distance),
          __shfl_down_sync(ALL, bounded.exponent, distance),
          __shfl_down_sync(ALL, bounded.offset, distance)};
}

// Lane 0 receives the join of the first `width` lanes.
DEVICE inline BoundedMap reduce_bounded(BoundedMap bounded, int lane, int width) {
#pragma unroll
  for (int distance = 1; distance < width; distance *= 2) {
    const BoundedMap later = bounded_from_above(bounded, distance);
    if (lane % (2 * distance) == 0 && lane + distance < width)
      bounded = compose_bounded(bounded, later);
  }
  return bounded;
}

// The composed tiles of a block. Bounded tiles are composed separately, at a tenth of the cost.
struct Running {
  Span span;
  BoundedMap bounded;
  bool is_bounded;  // whether `bounded` follows `span`
  DEVICE Running() : span(empty_span()), bounded(), is_bounded(false) {}
  DEVICE Span whole() const { return is_bounded ? join(span, guarded_of(bounded)) : span; }

  // Joins the next tile. `load_next` is called once all threads have read their items, since the
  // following code would delay the next loads. The first warp has the result.
  template <class Has, class Steps, class Load, class Across>
  DEVICE void take(const Source& source, const Items& items, bool whole, Has has,
                   Steps step_by_step, Load load_next, Across across) {
    const Part part = fold_part(source, items, whole, has);
    const bool is_tile_bounded = __syncthreads_and(part.is_bounded);
    load_next();
    if (is_tile_bounded) {
      const BoundedMap tile = across.join_bounded(part.bounded);
      if (threadIdx.x < 32) bounded = is_bounded ? compose_bounded(bounded, tile) : tile;
      is_bounded = true;
    } else {
      const Span tile = across.join_spans(guarded_of(part, step_by_step));
      if (threadIdx.x < 32) span = join(this->whole(), tile);
      is_bounded = false;
    }
  }
};

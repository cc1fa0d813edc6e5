// Scan and reduction of spans across the lanes of a warp; lane order is time order.
#pragma once
#include "scans/cuda/scope/span.cuh"

constexpr unsigned ALL = 0xffffffffu;

template <class Shuffle> DEVICE inline Span shuffled(const Span& span, Shuffle shuffle) {
  Packed mine, theirs;
  mine.span = span;
#pragma unroll
  for (int k = 0; k < int(sizeof(Span) / 4); ++k) theirs.word[k] = shuffle(mine.word[k]);
  return theirs.span;
}
DEVICE inline Span from_below(const Span& span, int distance) {
  return shuffled(span, [=](unsigned word) { return __shfl_up_sync(ALL, word, distance); });
}
DEVICE inline Span from_above(const Span& span, int distance) {
  return shuffled(span, [=](unsigned word) { return __shfl_down_sync(ALL, word, distance); });
}
DEVICE inline Span from_lane(const Span& span, int lane) {
  return shuffled(span, [=](unsigned word) { return __shfl_sync(ALL, word, lane); });
}

// The scan below without branches; `odd` in any lane that it is not good in. Where ALL_MAPS the
// first `width` lanes have one each: no kind is asked for.
template <bool ALL_MAPS>
DEVICE inline Span quick_warp_scan(Span span, int lane, int width, bool& odd) {
#pragma unroll
  for (int distance = 1; distance < width; distance *= 2) {
    Span below = from_below(span, distance);
    if (ALL_MAPS) below.kind = span.kind = MAP;
    bool is_odd = false;
    const Span joined = join_quickly(below, span, is_odd);
    const bool has_below = lane >= distance;
#pragma unroll
    for (int k = 0; k < SLOTS; ++k) span.v[k] = has_below ? joined.v[k] : span.v[k];
    span.kind = has_below ? joined.kind : span.kind;
    odd = odd | (is_odd & has_below & (lane < width));
  }
  return span;
}

// Lane l receives the join of lanes 0..l, over the first `width` lanes.
template <bool ALL_MAPS = false>
DEVICE inline Span warp_scan(Span span, int lane, int width = 32) {
  if constexpr (Transfer::QUICK) {
    bool odd = false;
    const Span quick = quick_warp_scan<ALL_MAPS>(span, lane, width, odd);
    if (!__any_sync(ALL, odd)) return quick;
  }
#pragma unroll(Transfer::QUICK ? 1 : 5)
  for (int distance = 1; distance < width; distance *= 2) {
    const Span below = from_below(span, distance);
    if (lane >= distance) span = join(below, span);
  }
  return span;
}

// Lane 0 receives the join of all lanes.
DEVICE inline Span warp_reduce(Span span, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Span above = from_above(span, distance);
    if (lane % (2 * distance) == 0) span = join(span, above);
  }
  return span;
}

// The join of all lanes before this one; empty in lane 0.
DEVICE inline Span exclusive(const Span& inclusive, int lane) {
  Span below = from_below(inclusive, 1);
  if (lane == 0) below.kind = EMPTY;
  return below;
}

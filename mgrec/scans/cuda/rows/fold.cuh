// The state at the start of a tile, from the spans of all tiles before it, by one warp.
//
// Tiles form groups of 32, counted from the first, and every group is joined by the same tree: the
// arithmetic does not depend on the number of blocks.
#pragma once
#include "scans/cuda/trust/guard.cuh"

constexpr int GROUP = 32, RUN = 8, SHARE = GROUP / RUN;  // tiles of a group, of a lane; its lanes

// Joins as a tree, since the latencies of a chain add up.
DEVICE inline Span join_spans(const Span (&spans)[RUN]) {
  Span tree[RUN];
  bool needs_slow_path = false;
#pragma unroll
  for (int k = 0; k < RUN; ++k) tree[k] = spans[k];
#pragma unroll
  for (int distance = 1; distance < RUN; distance *= 2)
#pragma unroll
    for (int k = 0; k < RUN; k += 2 * distance)
      tree[k] = join_quickly(tree[k], tree[k + distance], needs_slow_path);
  if (!Transfer::QUICK || !needs_slow_path) return tree[0];
  Span span = spans[0];
#pragma unroll
  for (int k = 1; k < RUN; ++k) span = join(span, spans[k]);
  return span;
}

// Lane SHARE·j receives the join of the tiles of the j-th group from `first` on that are in
// begin..end-1.
DEVICE inline Span fold_groups(const Unit* descriptors, long long first, long long first_tile,
                               long long end, unsigned tag) {
  const int lane = threadIdx.x % 32;
  const long long mine = first * GROUP + lane * RUN;
  Span spans[RUN];
  unsigned missing = 0;
#pragma unroll
  for (int k = 0; k < RUN; ++k)
    missing |= unsigned(mine + k >= first_tile && mine + k < end) << k;
  await_spans(descriptors, missing, spans, [=](int k) { return mine + k; }, [=](int) { return tag; });
  Span span = join_spans(spans);
#pragma unroll
  for (int distance = 1; distance < SHARE; distance *= 2) {
    const Span above = from_above(span, distance);
    if (lane % (2 * distance) == 0) span = join(span, above);
  }
  return span;
}

struct Spine {
  Transfer::State state;  // at the start of the group
  long long group;

  // The state at the start of `tile`, which tiles before `first_tile` do not affect. Calls
  // mark_suspect(tile) if the state at the start of a tile is suspect.
  template <class Doubt>
  DEVICE Transfer::State advance(long long first_tile, long long tile, const Unit* descriptors,
                                 unsigned epoch, Doubt mark_suspect) {
    if (first_tile / GROUP > group) group = first_tile / GROUP;
    while (true) {
      const Span folded = fold_groups(descriptors, group, first_tile, tile, tag_of(epoch));
#pragma unroll
      for (int j = 0; j < 32 / SHARE; ++j) {
        const Span span = from_lane(folded, SHARE * j);
        const long long end = (group + 1) * GROUP;
        const Transfer::State next = after(span, state);
        if (GUARDED && threadIdx.x % 32 == 0 && is_suspect(span, state, next))
          mark_suspect(end < tile ? end : tile);
        if (tile < end) return next;
        state = next;
        ++group;
      }
    }
  }
};

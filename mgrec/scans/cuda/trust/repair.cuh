// Repair: the plain loop over the steps that a launch has marked, a thread a row; from the row's
// start where a state comes near overflow by operands that are finite.
#pragma once
#include "scans/cuda/trust/guard.cuh"

template <class R> DEVICE inline bool wholly_nan(R x) { return x != x; }
template <class R> DEVICE inline bool wholly_nan(complex<R> x) {
  return x.re != x.re && x.im != x.im;
}
DEVICE inline bool stays_nan(const Transfer::State& state) { return wholly_nan(state.v[0]); }

DEVICE inline Transfer::State before_step(const Entry& entry, T* const (&results)[Transfer::STATES],
                                          long long row, long long base, long long time,
                                          long long steps, long long inners) {
  if (time == 0) return entry.at(row);
  Transfer::State state;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    state.v[q] = results[q][base + (REVERSE ? steps - time : time - 1) * inners];
  return state;
}

// ITEMS steps from `time` on; true when the last state is what was there before. `has_grown` is set
// where a state comes near overflow by operands that are finite.
DEVICE inline bool repair_run(const Source& source, T* const (&results)[Transfer::STATES],
                              Transfer::State& state, bool& has_grown, long long outer,
                              long long inner, long long base, long long time, long long outers,
                              long long steps, long long inners) {
  const long long first = REVERSE ? steps - time - ITEMS : time;
  Items items;
  items.step = first;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (first + r >= 0 && first + r < steps)
#pragma unroll
      for (int p = 0; p < Source::STREAMS; ++p)
        items.v[p][r] = source.stream[p][base + (first + r) * inners];
  source.complete(items, outer, first, inner, outers, steps);
  source.lift_items(items);
  bool same = true;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int r = REVERSE ? ITEMS - 1 - k : k;
    if (first + r < 0 || first + r >= steps) continue;
    const Transfer::State before = state;
    state = Transfer::apply(source.map(items, r), state);
    has_grown = has_grown || grows(source.map(items, r), before, state);
#pragma unroll
    for (int q = 0; q < Transfer::STATES; ++q) {
      T& result = results[q][base + (first + r) * inners];
      same = result == state.v[q] || (np_isnan(result) && np_isnan(state.v[q]));
      result = state.v[q];
    }
  }
  return same;
}

DEVICE void repair(const Source& source, const Entry& entry,
                   T* const (&results)[Transfer::STATES], const Marks& marks, long long outers,
                   long long steps, long long inners, long long tile_length, unsigned epoch) {
  if (marks.first >> TILE_BITS != epoch) return;
  const long long first = TILE_MASK - (marks.first & TILE_MASK), last = marks.last & TILE_MASK;
  const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (row >= outers * inners) return;
  const long long outer = row / inners, inner = row - outer * inners;
  // Tiles of columns count steps; tiles of contiguous rows count elements of all rows. With REVERSE
  // the first tile is the partial one.
  const long long length = inners > 1 ? steps : outers * steps;
  const long long rows_before = inners > 1 ? 0 : REVERSE ? outers - 1 - row : row;
  const long long slack = REVERSE && inners == 1
                              ? (length + tile_length - 1) / tile_length * tile_length - length : 0;
  long long time = first * tile_length - slack - rows_before * steps;
  long long settled = (last + 1) * tile_length - slack - rows_before * steps;
  time = time < 0 ? 0 : time - time % ITEMS;
  if (time >= steps || settled <= 0) return;
  const long long base = outer * steps * inners + inner;
  Transfer::State state = before_step(entry, results, row, base, time, steps, inners);
  bool has_grown = false, from_start = false;
  for (; time < steps; time += ITEMS) {
    const bool same = repair_run(source, results, state, has_grown, outer, inner, base, time,
                                 outers, steps, inners);
    if (has_grown && !from_start) {
      from_start = true;
      settled = steps;
      time = -ITEMS;
      state = before_step(entry, results, row, base, 0, steps, inners);
      continue;
    }
    if (same && time >= settled) return;
    if (stays_nan(state)) return;  // so does every later state, in the single pass as in the loop
  }
}

// The three phases of P-scheme/G (Wakatani 2012, 2013): a thread for each part.
//
// precompute: every thread composes its part; propagate: the state passes from part to part; determine:
// every thread solves its part from its carry-in. A thread loads ITEMS steps at once, since a load takes
// as long as the arithmetic of hundreds of steps.
#pragma once
#include "scans/cuda/p_scheme/parts.cuh"
#include "scans/cuda/trust/guard.cuh"

// Repair: the plain loop over the marked steps, a thread for each row. It starts at the start of the
// row if a state comes near overflow although operands are finite.

DEVICE inline Transfer::State before_step(const Entry& carry_ins,
                                          T* const (&results)[Transfer::STATES], long long row,
                                          long long base, long long time, long long steps,
                                          long long inners) {
  if (time == 0) return carry_ins.at(row);
  Transfer::State state;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    state.v[q] = results[q][base + (REVERSE ? steps - time : time - 1) * inners];
  return state;
}

// Solves ITEMS steps from `time` on; returns whether the last state is equal to the old result. Sets
// `has_grown` if a state comes near overflow although operands are finite.
DEVICE inline bool repair_steps(const Source& source, T* const (&results)[Transfer::STATES],
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

DEVICE void repair(const Source& source, const Entry& carry_ins,
                   T* const (&results)[Transfer::STATES], const Marks& marks, long long outers,
                   long long steps, long long inners, unsigned epoch) {
  if (marks.first >> TILE_BITS != epoch) return;
  const long long first = TILE_MASK - (marks.first & TILE_MASK), last = marks.last & TILE_MASK;
  const long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (row >= outers * inners) return;
  const long long outer = row / inners, inner = row - outer * inners;
  // Marks of columns count steps; those of contiguous rows count elements of all rows.
  const long long rows_before = inners > 1 ? 0 : REVERSE ? outers - 1 - row : row;
  long long time = first - rows_before * steps, settled = last + 1 - rows_before * steps;
  time = time < 0 ? 0 : time - time % ITEMS;
  if (time >= steps || settled <= 0) return;
  const long long base = outer * steps * inners + inner;
  Transfer::State state = before_step(carry_ins, results, row, base, time, steps, inners);
  bool has_grown = false, from_start = false;
  for (; time < steps; time += ITEMS) {
    const bool same = repair_steps(source, results, state, has_grown, outer, inner, base, time,
                                   outers, steps, inners);
    if (has_grown && !from_start) {
      from_start = true;
      settled = steps;
      time = -ITEMS;
      state = before_step(carry_ins, results, row, base, 0, steps, inners);
      continue;
    }
    if (same && time >= settled) return;
    if (is_nan(state.v[0])) return;  // so does every later state, in the single pass as in the loop
  }
}


// The element of step 0 of a part, and the distance to that of the next step.
struct Track { long long base, stride; };

DEVICE inline Track track_of(const Part& part, const Parts& parts) {
  if (parts.stride > 0) return {part.number, parts.stride};
  return {part.base, parts.inners};
}

template <bool WHOLE>
DEVICE inline void load_steps(const Source& source, const Parts& parts, const Part& part,
                              const Track& track, long long first, Items& items) {
  items.step = part.first + first;
#pragma unroll
  for (int p = 0; p < Source::STREAMS; ++p)
#pragma unroll
    for (int r = 0; r < ITEMS; ++r)
      if (WHOLE || (first + r >= 0 && first + r < part.steps))
        items.v[p][r] = source.stream[p][track.base + (first + r) * track.stride];
  source.complete(items, part.outer, items.step, part.inner, parts.outers, parts.steps);
  source.lift_items(items);
}

// Calls visit(map of the step, index of its result, whether it is the first step of the part).
template <bool WHOLE, class Visit>
DEVICE inline void visit_steps(const Source& source, const Parts& parts, const Part& part,
                               const Track& track, long long time, Visit visit) {
  const long long first = REVERSE ? part.steps - time - ITEMS : time;
  Items items;
  load_steps<WHOLE>(source, parts, part, track, first, items);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int r = REVERSE ? ITEMS - 1 - k : k;
    if (WHOLE || (first + r >= 0 && first + r < part.steps))
      visit(source.map(items, r), track.base + (first + r) * track.stride, k == 0 && time == 0);
  }
}

template <class Visit>
DEVICE inline void walk_part(const Source& source, const Parts& parts, const Part& part,
                             Visit visit) {
  const Track track = track_of(part, parts);
  long long time = 0;
  for (; time + ITEMS <= part.steps; time += ITEMS)
    visit_steps<true>(source, parts, part, track, time, visit);
  if (time < part.steps) visit_steps<false>(source, parts, part, track, time, visit);
}

DEVICE void precompute_parts(const Source& source, T* const (&maps)[Transfer::WIDTH],
                             const Parts& parts) {
  for (long long number = first_thread(); number < parts.count(); number += thread_count()) {
    Transfer::Map map;
    walk_part(source, parts, part_of(number, parts),
              [&](const Transfer::Map& step, long long, bool is_first_step) {
                map = is_first_step ? step : compose(map, step);
              });
#pragma unroll
    for (int k = 0; k < Transfer::WIDTH; ++k) maps[k][number] = map.v[k];
  }
}

constexpr int LOADS = 4;  // of 32 maps that are loaded ahead

// A row and its parts in time order.
struct RowParts {
  long long outer, inner;
  DEVICE long long number(long long order, const Parts& parts) const {
    const long long piece = REVERSE ? parts.per_row - 1 - order : order;
    return (outer * parts.per_row + piece) * parts.inners + inner;
  }
};

DEVICE inline void load_maps(const T* const (&maps)[Transfer::WIDTH], const RowParts& row_parts,
                             long long first_order, const Parts& parts,
                             Transfer::Map (&loaded)[LOADS]) {
#pragma unroll
  for (int a = 0; a < LOADS; ++a) {
    const long long order = first_order + a * 32 + threadIdx.x % 32;
    if (order >= parts.per_row) return;
#pragma unroll
    for (int k = 0; k < Transfer::WIDTH; ++k)
      loaded[a].v[k] = maps[k][row_parts.number(order, parts)];
  }
}

// Marks steps for `repair`, counted in time over all contiguous rows, or in each column.
DEVICE inline void mark_part(Marks& marks, const Part& part, const Parts& parts, unsigned epoch) {
  const long long before = REVERSE ? parts.outers - 1 - part.outer : part.outer;
  const long long first_step = REVERSE ? parts.steps - part.first - part.steps : part.first;
  const long long time = first_step + (parts.inners > 1 ? 0 : before * parts.steps);
  mark(marks, time, epoch);
  mark(marks, time + part.steps - 1, epoch);
}

// A warp for each row: lane k has the state before the k-th part of 32. A shuffle distributes the map
// of each part, independent of states; only `apply` remains in the chain.
DEVICE void propagate_parts(const T* const (&maps)[Transfer::WIDTH], const Entry& carry_ins,
                            T* const (&part_carry_ins)[Transfer::STATES], Marks& marks,
                            const Parts& parts, unsigned epoch) {
  const int lane = threadIdx.x % 32;
  const long long row = first_thread() / 32;
  if (row >= parts.outers * parts.inners) return;
  const RowParts row_parts = {row / parts.inners, row % parts.inners};
  Transfer::State state = carry_ins.at(row);
  Transfer::Map now[LOADS] = {}, next[LOADS] = {};
  load_maps(maps, row_parts, 0, parts, next);
  for (long long first_part = 0; first_part < parts.per_row; first_part += LOADS * 32) {
#pragma unroll
    for (int a = 0; a < LOADS; ++a) now[a] = next[a];
    load_maps(maps, row_parts, first_part + LOADS * 32, parts, next);
#pragma unroll
    for (int a = 0; a < LOADS; ++a) {
      Transfer::State mine = state;
      const long long first = first_part + a * 32, left = parts.per_row - first;
#pragma unroll 8
      for (int k = 0; k < 32; ++k) {
        if (lane == k) mine = state;
        if (k < left) state = Transfer::apply(from_lane(now[a], k), state);
      }
      if (lane >= left) continue;
      const long long number = row_parts.number(first + lane, parts);
#pragma unroll
      for (int q = 0; q < Transfer::STATES; ++q) part_carry_ins[q][number] = mine.v[q];
      const Transfer::State after_part = Transfer::apply(now[a], mine);
      if (GUARDED && !is_in_range(after_part))
        mark_part(marks, part_of(number, parts), parts, epoch);
      else if (GUARDED && lane + 1 < left && is_suspect(span_of(now[a]), mine, after_part))
        mark_part(marks, part_of(row_parts.number(first + lane + 1, parts), parts), parts, epoch);
    }
  }
}

DEVICE void determine_parts(const Source& source, const Entry& part_carry_ins,
                            T* const (&results)[Transfer::STATES], const Parts& parts) {
  for (long long number = first_thread(); number < parts.count(); number += thread_count()) {
    Transfer::State state = part_carry_ins.at(number);
    walk_part(source, parts, part_of(number, parts),
              [&](const Transfer::Map& step, long long index, bool) {
                state = Transfer::apply(step, state);
#pragma unroll
                for (int q = 0; q < Transfer::STATES; ++q) results[q][index] = state.v[q];
              });
  }
}

// Wavefront loops by compensation (Hou, Wang & Feng 2018): a block processes a strip of columns
// downwards.
//
// A row takes three steps: the terms without the horizontal dependency, a weighted scan along the
// row, and the combination of both. Each thread has ITEMS contiguous columns. The scan returns
// their carry-in, the cell to the left of them, and from there the thread runs the loop itself. The
// thread before has computed the same cell, so a wrong carry-in is detected. Then threads take
// their carry-ins from there until all agree, at the latest when the loop has processed the row
// cell by cell. So integers that wrap around, nan, inf and weights whose product underflows give
// the results of the loop. The last column goes to the next strip by words in memory: there is no
// barrier over all blocks, and no row waits for another strip.
#pragma once
#include "grids/loops/grids.cuh"

constexpr int WIDTH = THREADS * ITEMS, WARPS = THREADS / 32;
constexpr int ROW_BYTES = WIDTH * int(sizeof(T)), VECTORS = ITEMS / V;
constexpr int AHEAD = STAGES - 2;  // rows on their way to shared memory
constexpr bool IS_REAL = is_real<T>::value;
static_assert(AHEAD > 0, "a row is computed and one is written while others are read");

DEVICE inline int lane() { return threadIdx.x % 32; }
DEVICE inline int warp() { return threadIdx.x / 32; }
DEVICE inline void sync_block() {
  if (WARPS == 1) __syncwarp();
  else __syncthreads();
}
// Return whether the flag is set in any thread. In one warp, a vote is faster than a barrier.
DEVICE inline bool any_of_block(bool flag) {
#ifdef __CUDA_ARCH__
  if (WARPS == 1) return __any_sync(ALL, flag);
#endif
  return __syncthreads_or(flag);
}
// Return the value of the thread before this one, and `first` in the first thread. Two calls with
// the same CALL need a barrier between them, such as that of another call.
template <int CALL> DEVICE inline T from_thread_before(T value, T first) {
  T before = from_below(value, 1);
  if (WARPS > 1) {
    __shared__ T lasts[WARPS];
    if (lane() == 31) lasts[warp()] = value;
    __syncthreads();
    if (lane() == 0 && warp() > 0) before = lasts[warp() - 1];
  }
  return threadIdx.x == 0 ? first : before;
}

// The composition of steps along a row: carry_in → (carry_in ∘ weight) ◇ sum.
struct Map {
  T weight, sum;
  DEVICE T apply(T carry_in) const {
    return accumulate(SAME ? carry_in : distribute(carry_in, weight), sum);
  }
};
DEVICE inline Map compose(const Map& earlier, const Map& later) {
  return {SAME ? later.weight : distribute(earlier.weight, later.weight), later.apply(earlier.sum)};
}
DEVICE inline Map from_below(const Map& map, int distance) {
  return {SAME ? map.weight : from_below(map.weight, distance), from_below(map.sum, distance)};
}
DEVICE inline Map from_lane(const Map& map, int lane) {
  return {SAME ? map.weight : from_lane(map.weight, lane), from_lane(map.sum, lane)};
}
// Return whether a product of weights has lost digits, below the smallest normal number.
DEVICE inline bool is_lost(T weight) {
  if constexpr (LOSES && !SAME && IS_REAL) return np_absolute(weight) < T(SMALLEST);
  return false;
}

// Compose the map of each lane with those of all lanes before it.
DEVICE inline Map scan_lanes(Map map, bool& lost) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Map before = from_below(map, distance);
    if (lane() >= distance) map = compose(before, map);
    lost |= is_lost(map.weight);
  }
  return map;
}
// Return the composition of the maps of all threads before this one, if it is not the first.
DEVICE inline Map weighted_scan(const Map& map, bool& lost) {
  const Map upto = scan_lanes(map, lost);
  Map before = from_below(upto, 1);
  if (WARPS > 1) {
    __shared__ T totals[2][WARPS];
    if (lane() == 31) {
      totals[0][warp()] = upto.weight;
      totals[1][warp()] = upto.sum;
    }
    __syncthreads();
    const int other = lane() < WARPS ? lane() : WARPS - 1;
    const Map warps = scan_lanes({totals[0][other], totals[1][other]}, lost);
    const Map earlier = from_lane(warps, warp() > 0 ? warp() - 1 : 0);
    if (warp() > 0) before = lane() > 0 ? compose(earlier, before) : earlier;
  }
  return before;
}

DEVICE inline unsigned char* row_address(int stage, int slot) {
  return shared_bytes + (stage * SLOTS + slot) * ROW_BYTES;
}
// Return the number of columns of a strip inside the grid.
DEVICE inline int inside_of(const Grids& all, const Strip& strip) {
  const long long remaining = all.columns - strip.index * WIDTH;
  return remaining < WIDTH ? int(remaining) : WIDTH;
}
// Call visit(word) for this thread's words of a row.
template <class Visit> DEVICE inline void for_words(int inside, Visit visit) {
#pragma unroll
  for (int q = 0; q < ITEMS / NUMBERS; ++q) {
    const int word = q * THREADS + threadIdx.x;
    if (word * NUMBERS < inside) visit(word);
  }
}

// The numbers of an operand that a thread reads row by row; `from` points to the next number or
// row.
template <int O> struct Source {
  static constexpr int KIND = kind_of(O);
  const T* from;
  T values[KIND == CONSTANT ? 1 : ITEMS], next;

  DEVICE void init(const Grids& all, const Strip& strip) {
    const Operand& operand = all.operands[O];
    const long long first = strip.index * WIDTH, mine = first + threadIdx.x * ITEMS;
    from = operand.at(strip.grid, 0, KIND == CONSTANT ? 0 : first);
    if (KIND == CONSTANT) next = *from;
    if (KIND != ROW) return;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      values[k] = mine + k < all.columns ? from[threadIdx.x * ITEMS + k] : T(0);
  }
  // Request a row of an array.
  DEVICE void prefetch(const Grids& all, int inside, int stage) {
    if (KIND != ARRAY) return;
    for_words(inside, [&](int word) {
      copy_word((Word*)row_address(stage, slot_of(O)) + word, (const Word*)from + word);
    });
    from += all.operands[O].row;
  }
  DEVICE void advance(const Grids& all, bool is_last, int stage) {
    if (KIND == CONSTANT) {
      values[0] = next;
      from += all.operands[O].row;
      if (!is_last) next = *from;
    }
    if (KIND != ARRAY) return;
    const Vector* mine = (const Vector*)row_address(stage, slot_of(O)) + threadIdx.x * VECTORS;
#pragma unroll
    for (int p = 0; p < VECTORS; ++p) {
      const Vector vector = mine[p];
#pragma unroll
      for (int v = 0; v < V; ++v) values[p * V + v] = vector.v[v];
    }
  }
  DEVICE T at(int k) const { return values[KIND == CONSTANT ? 0 : k]; }
};

// The columns of a thread.
struct Columns {
  Source<LOCAL> local;
  Source<B0> b0;
  Source<B1> b1;
  Source<B2> b2;
  T above[ITEMS];
  T* table;
  int inside;

  DEVICE void init(const Grids& all, const Strip& strip) {
    inside = inside_of(all, strip);
    table = all.table + strip.grid * all.batch + strip.index * WIDTH;
    local.init(all, strip);
    b0.init(all, strip);
    b1.init(all, strip);
    b2.init(all, strip);
    const long long first = strip.index * WIDTH + threadIdx.x * ITEMS;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      above[k] = first + k < all.columns ? *all.above.at(strip.grid, 0, first + k) : T(0);
  }
  DEVICE void prefetch(const Grids& all, long long row, int stage) {
    if (row < all.rows) {
      local.prefetch(all, inside, stage);
      b0.prefetch(all, inside, stage);
      b1.prefetch(all, inside, stage);
      b2.prefetch(all, inside, stage);
    }
    copies_commit();
  }
  DEVICE void advance(const Grids& all, long long row, int stage) {
    const bool is_last = row == all.rows - 1;
    local.advance(all, is_last, stage);
    b0.advance(all, is_last, stage);
    b1.advance(all, is_last, stage);
    b2.advance(all, is_last, stage);
  }
  DEVICE T corner_at(int k, T corner) const { return k == 0 ? corner : above[k - 1]; }

  // Do step 1 of the paper, and return the composition of all columns.
  DEVICE Map without_horizontal(T corner, T floor, bool& lost) const {
    Map all;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const T diagonal = distribute(corner_at(k, corner), b2.at(k));
      const T sum = accumulate(accumulate(distribute(above[k], b1.at(k)), diagonal), local.at(k));
      const T term = at_least(sum, floor);
      const Map step = {b0.at(k), SAME ? accumulate(b0.at(k), term) : term};
      all = k == 0 ? step : compose(all, step);
    }
    lost |= is_lost(all.weight);
    return all;
  }
  // Do step 3: run the loop from a carry-in.
  DEVICE T combine(T left, T corner, T floor, T (&result)[ITEMS]) const {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const Weights weights = {b0.at(k), b1.at(k), b2.at(k)};
      left = result[k] = cell(left, above[k], corner_at(k, corner), weights, local.at(k), floor);
    }
    return left;
  }
  // Write a row over `local` in shared memory, and retain it for the next row.
  DEVICE void retain(const T (&result)[ITEMS], int stage) {
    Vector* to = (Vector*)row_address(stage, 0) + threadIdx.x * VECTORS;
#pragma unroll
    for (int p = 0; p < VECTORS; ++p) {
      Vector vector;
#pragma unroll
      for (int v = 0; v < V; ++v) vector.v[v] = above[p * V + v] = result[p * V + v];
      to[p] = vector;
    }
  }
  // Write the next row of the table.
  DEVICE void store(const Grids& all, int stage) {
    for_words(inside,
              [&](int word) { ((Word*)table)[word] = ((const Word*)row_address(stage, 0))[word]; });
    table += all.row;
  }
};

// Return whether a carry-in and the same cell, computed by the thread before, differ: in value for
// integers, else in being nan, inf or finite.
DEVICE inline bool differs(T carry_in, T computed) {
  if constexpr (!IS_REAL) return carry_in != computed;
  else {
    const bool are_nan = carry_in != carry_in && computed != computed;
    return !(carry_in == computed || are_nan || (np_isfinite(carry_in) && np_isfinite(computed)));
  }
}
// Return whether both differ by more than sums in another order do, if these do not cancel.
DEVICE inline bool is_far(T carry_in, T computed) {
  if constexpr (!LOSES || SAME || !IS_REAL) return false;
  else return np_absolute(carry_in - computed) >
              T(TOLERANCE) * (np_absolute(carry_in) + np_absolute(computed));
}
// Return whether carry-ins must be corrected. Large differences count only if a product is lost,
// else they come from sums that cancel.
DEVICE inline bool any_wrong(T carry_in, T computed, bool is_inside, bool lost) {
  const bool wrong = is_inside && differs(carry_in, computed);
  const bool far = is_inside && is_far(carry_in, computed);
  if (!any_of_block(wrong || far)) return false;
  const bool any_lost = any_of_block(lost);
  return any_of_block(wrong || (any_lost && far));
}

// The values to the left of a strip, row by row: a border, or the last column of the strip before.
struct LeftEdge {
  RemoteNumber remote;
  T number;
  const T* border;
  const Unit* words;
  bool is_border;
  DEVICE void init(const Grids& all, const Strip& strip, const Unit* all_words) {
    is_border = strip.index == 0;
    border = all.left.at(strip.grid, 0, 0);
    words = all_words + (strip.unit - 1) * all.rows * UNITS;
    prefetch();
  }
  DEVICE void prefetch() {
    if (is_border) number = *border;
    else remote.prefetch(words);
  }
  DEVICE T take(const Grids& all, bool is_last, unsigned tag) {
    const T taken = is_border ? number : remote.take(words, tag);
    border += all.left.row;
    words += UNITS;
    if (!is_last) prefetch();
    return taken;
  }
};

// Compute one row of a strip from its carry-in, and return the last column.
DEVICE inline T solve_row(const Columns& columns, T corner, T carry_in, const Map& before,
                          bool lost, bool is_inside, T floor, T (&result)[ITEMS]) {
  T left = threadIdx.x == 0 ? carry_in : before.apply(carry_in);
  for (;;) {
    const T last = columns.combine(left, corner, floor, result);
    if (!CHECKED) return last;
    const T computed = from_thread_before<1>(last, left);
    if (!any_wrong(left, computed, is_inside, lost)) return last;
    left = computed;
  }
}

// Write a row while the next one is computed, and request another one to the stage of the row
// before.
DEVICE inline void solve_strip(const Grids& all, const Strip& strip, Unit* words, unsigned tag) {
  const long long first = strip.index * WIDTH;
  const bool is_inside = first + threadIdx.x * ITEMS < all.columns;
  const T floor = floor_of(all);
  Columns columns;
  columns.init(all, strip);
  LeftEdge left_edge;
  left_edge.init(all, strip, words);
  Unit* edge_words = words + strip.unit * all.rows * UNITS;
  T edge = first == 0 ? *all.corner.at(strip.grid, 0, 0) : *all.above.at(strip.grid, 0, first - 1);
  for (int s = 0; s < AHEAD; ++s) columns.prefetch(all, s, s);
  int stage = 0, before = STAGES - 1, free = AHEAD;
  for (long long row = 0; row < all.rows; ++row) {
    copies_wait_but<AHEAD - 1>();
    sync_block();
    columns.advance(all, row, stage);
    if (row > 0) columns.store(all, before);
    columns.prefetch(all, row + AHEAD, free);
    bool lost = ALWAYS_LOSES;
    const T corner = from_thread_before<0>(columns.above[ITEMS - 1], edge);
    const Map scanned = weighted_scan(columns.without_horizontal(corner, floor, lost), lost);
    edge = left_edge.take(all, row == all.rows - 1, tag);
    T result[ITEMS];
    const T last = solve_row(columns, corner, edge, scanned, lost, is_inside, floor, result);
    if (threadIdx.x == THREADS - 1 && !strip.is_last(all)) publish(edge_words, last, tag);
    edge_words += UNITS;
    columns.retain(result, stage);
    before = stage;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    free = free + 1 < STAGES ? free + 1 : 0;
  }
  sync_block();
  columns.store(all, before);
  sync_block();
}

DEVICE inline void solve_compensation(const Grids& all, Unit* words, unsigned epoch) {
  const unsigned tag = tag_of(epoch);
  for (long long unit = blockIdx.x; unit < all.count * all.strips; unit += gridDim.x)
    solve_strip(all, Strip(all, unit), words, tag);
}

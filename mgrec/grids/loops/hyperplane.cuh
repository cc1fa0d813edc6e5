// Wavefront loops by hyperplanes: a warp processes a strip of 32 rows from left to right, one row a
// lane and one antidiagonal a step.
//
// Arrays are skewed: the antidiagonals of a strip follow each other, each 32 numbers long. So a
// step reads and writes whole segments of memory. Lane r is r columns behind lane 0. A shuffle
// brings the row above from the step before. The last row goes to the next strip by words in
// memory.
#pragma once
#include "grids/loops/grids.cuh"

constexpr int LANES = 32;
static_assert(LANES % AHEAD == 0, "steps to the next numbers from above are whole groups");
DEVICE inline int lane() { return threadIdx.x; }
DEVICE inline long long row_of(const Strip& strip) { return strip.index * LANES + lane(); }

// The numbers of an operand that a lane reads, AHEAD steps before their use.
template <int O> struct Source {
  static constexpr int KIND = kind_of(O);
  const T* row;
  long long stride, least, most;  // bounds of the columns that have memory
  T next[KIND == CONSTANT ? 1 : AHEAD];

  DEVICE void init(const Grids& all, const Strip& strip) {
    const Operand& operand = all.operands[O];
    const long long row_index = row_of(strip) < all.rows ? row_of(strip) : 0;
    row = KIND == ARRAY ? operand.at(strip.unit, lane(), 0) : operand.at(strip.grid, row_index, 0);
    stride = operand.column;
    least = KIND == ARRAY ? -lane() : 0;
    most = KIND == ARRAY ? all.columns + LANES - 2 - lane() : all.columns - 1;
    if (KIND == CONSTANT) next[0] = *row;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) prefetch(k, k - lane());
  }
  DEVICE void prefetch(int k, long long column) {
    if (KIND == CONSTANT) return;
    column = column < least ? least : column > most ? most : column;
    next[k] = row[column * stride];
  }
  DEVICE T take(int k, long long column) {
    const T value = next[KIND == CONSTANT ? 0 : k];
    prefetch(k, column + AHEAD);
    return value;
  }
};

// The row above a strip, one number a lane: a border, or the last row of the strip above.
struct Above {
  RemoteNumber remote;
  T border;
  DEVICE const Unit* address_of(
      const Grids& all, const Strip& strip, long long column, const Unit* words) const {
    return words + ((strip.unit - 1) * all.columns + column) * UNITS;
  }
  DEVICE void prefetch(const Grids& all, const Strip& strip, long long column, const Unit* words) {
    if (column >= all.columns) return;
    if (strip.index == 0) border = *all.above.at(strip.grid, 0, column);
    else remote.prefetch(address_of(all, strip, column, words));
  }
  DEVICE T take(const Grids& all, const Strip& strip, long long column, const Unit* words,
                unsigned tag) const {
    if (column >= all.columns) return T(0);
    if (strip.index == 0) return border;
    return remote.take(address_of(all, strip, column, words), tag);
  }
};

// The state of a lane.
struct Lane {
  Source<LOCAL> local;
  Source<B0> b0;
  Source<B1> b1;
  Source<B2> b2;
  T left, corner, last;
  bool exists;

  DEVICE void init(const Grids& all, const Strip& strip) {
    local.init(all, strip);
    b0.init(all, strip);
    b1.init(all, strip);
    b2.init(all, strip);
    exists = row_of(strip) < all.rows;
    left = exists ? *all.left.at(strip.grid, row_of(strip), 0) : T(0);
    corner = exists ? corner_of(all, strip.grid, row_of(strip)) : T(0);
    last = T(0);
  }
  // Compute step `k` of AHEAD steps; `first` is the value above lane 0.
  DEVICE T step(int k, long long column, T first, T floor) {
    const T from_above = from_below(last, 1);
    const T up = lane() == 0 ? first : from_above;
    const Weights weights = {b0.take(k, column), b1.take(k, column), b2.take(k, column)};
    last = cell(left, up, corner, weights, local.take(k, column), floor);
    if (column >= 0) {
      left = last;
      corner = up;
    }
    return last;
  }
};

DEVICE inline void solve_strip(const Grids& all, const Strip& strip, Unit* words, unsigned tag) {
  const T floor = floor_of(all);
  T* table = all.table + strip.unit * all.batch + lane() * all.row;
  Lane state;
  Above above;
  state.init(all, strip);
  above.prefetch(all, strip, lane(), words);
  for (long long plane = 0; plane < all.columns + LANES - 1; plane += LANES) {
    const T mine = above.take(all, strip, plane + lane(), words, tag);
    above.prefetch(all, strip, plane + LANES + lane(), words);
    for (int first = 0; first < LANES; first += AHEAD) {
#pragma unroll
      for (int k = 0; k < AHEAD; ++k) {
        const long long column = plane + first + k - lane();
        const T value = state.step(k, column, from_lane(mine, first + k), floor);
        const bool is_inside = state.exists && column >= 0 && column < all.columns;
        if (is_inside) table[column * LANES] = value;
        if (is_inside && lane() == LANES - 1 && !strip.is_last(all))
          publish(words + (strip.unit * all.columns + column) * UNITS, value, tag);
      }
    }
  }
}

DEVICE inline void solve_hyperplane(const Grids& all, Unit* words, unsigned epoch) {
  const unsigned tag = tag_of(epoch);
  for (long long unit = blockIdx.x; unit < all.count * all.strips; unit += gridDim.x)
    solve_strip(all, Strip(all, unit), words, tag);
}

// Wavefront loops by compensation (Hou, Wang & Feng 2018): a block goes down a strip of columns.
//
// Row by row: the part without the horizontal dependency, then a weighted scan along the row, then
// both are combined. Each thread has ITEMS neighbouring columns. The scan gives it the entry to the
// left of them, and from there it runs the loop itself, so that a wrong entry shows: the thread
// before has computed that very cell. Entries are then taken from there until all agree, at the
// latest when the loop has gone through the row cell by cell; so integers that wrap around, nan, inf
// and weights whose product underflows come out as the loop has them. The last column goes to
// the next strip by words in memory: no barrier over all blocks, and no row waits for another strip.
#pragma once
#include "grids/loops/cuda/columns.cuh"

// Whether an entry is not nan, inf or finite as what the thread before has computed there is.
DEVICE inline bool differs(T entry, T computed) {
  if constexpr (!IS_REAL) return entry != computed;
  else {
    const bool are_nan = entry != entry && computed != computed;
    return !(entry == computed || are_nan || (np_isfinite(entry) && np_isfinite(computed)));
  }
}
// Whether both differ by more than sums in another order do, unless these cancel.
DEVICE inline bool is_far(T entry, T computed) {
  if constexpr (!LOSES || SAME || !IS_REAL) return false;
  else return np_absolute(entry - computed) >
              T(TOLERANCE) * (np_absolute(entry) + np_absolute(computed));
}
// Whether entries must be corrected: sums that cancel are told from lost products only if any are.
DEVICE inline bool any_wrong(T entry, T computed, bool is_inside, bool lost) {
  const bool wrong = is_inside && differs(entry, computed);
  const bool far = is_inside && is_far(entry, computed);
  if (!any_of_block(wrong || far)) return false;
  const bool any_lost = any_of_block(lost);
  return any_of_block(wrong || (any_lost && far));
}

// What comes from the left into a strip, row by row: a border, or what the strip before hands on.
struct Entries {
  Handed handed;
  T number;
  const T* border;
  const Unit* words;
  bool is_border;
  DEVICE void begin(const Grids& all, const Strip& strip, const Unit* all_words) {
    is_border = strip.index == 0;
    border = all.left.at(strip.grid, 0, 0);
    words = all_words + (strip.unit - 1) * all.rows * UNITS;
    ask();
  }
  DEVICE void ask() {
    if (is_border) number = *border;
    else handed.ask(words);
  }
  DEVICE T take(const Grids& all, bool is_last, unsigned tag) {
    const T taken = is_border ? number : handed.take(words, tag);
    border += all.left.row;
    words += UNITS;
    if (!is_last) ask();
    return taken;
  }
};

// One row of a strip from its entry; the last column.
DEVICE inline T run_row(
    const Columns& own, T corner, T entry, const Map& before, bool lost, bool is_inside, T floor,
    T (&result)[ITEMS]) {
  T left = threadIdx.x == 0 ? entry : before.apply(entry);
  for (;;) {
    const T last = own.combine(left, corner, floor, result);
    if (!CHECKED) return last;
    const T computed = from_thread_before<1>(last, left);
    if (!any_wrong(left, computed, is_inside, lost)) return last;
    left = computed;
  }
}

// A row is written while the next one is computed, and one is asked for in place of that before.
DEVICE inline void run_strip(const Grids& all, const Strip& strip, Unit* words, unsigned tag) {
  const long long first = strip.index * WIDTH;
  const bool is_inside = first + threadIdx.x * ITEMS < all.columns;
  const T floor = floor_of(all);
  Columns own;
  own.begin(all, strip);
  Entries entries;
  entries.begin(all, strip, words);
  Unit* handed = words + strip.unit * all.rows * UNITS;
  T edge = first == 0 ? *all.corner.at(strip.grid, 0, 0) : *all.above.at(strip.grid, 0, first - 1);
  for (int s = 0; s < AHEAD; ++s) own.ask(all, s, s);
  int stage = 0, before = STAGES - 1, free = AHEAD;
  for (long long row = 0; row < all.rows; ++row) {
    copies_wait_but<AHEAD - 1>();
    sync_block();
    own.advance(all, row, stage);
    if (row > 0) own.store(all, before);
    own.ask(all, row + AHEAD, free);
    bool lost = ALWAYS_LOSES;
    const T corner = from_thread_before<0>(own.above[ITEMS - 1], edge);
    const Map scanned = weighted_scan(own.without_horizontal(corner, floor, lost), lost);
    edge = entries.take(all, row == all.rows - 1, tag);
    T result[ITEMS];
    const T last = run_row(own, corner, edge, scanned, lost, is_inside, floor, result);
    if (threadIdx.x == THREADS - 1 && !strip.is_last(all)) publish(handed, last, tag);
    handed += UNITS;
    own.keep(result, stage);
    before = stage;
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    free = free + 1 < STAGES ? free + 1 : 0;
  }
  sync_block();
  own.store(all, before);
  sync_block();
}

DEVICE inline void run_compensation(const Grids& all, Unit* words, unsigned epoch) {
  const unsigned tag = tag_of(epoch);
  for (long long unit = blockIdx.x; unit < all.count * all.strips; unit += gridDim.x)
    run_strip(all, Strip(all, unit), words, tag);
}

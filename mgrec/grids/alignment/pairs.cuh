// Many pairs of sequences: a warp aligns one pair after the other, strip by strip.
//
// A strip passes its last row to the strip below through device memory, one row for each warp. The
// results do not depend on the warp.
#pragma once
#include "grids/alignment/strip.cuh"

enum { IS_LOCAL, IS_GLOBAL, IS_SEMI_GLOBAL };

// The sequences of a side, joined; or one sequence, which is aligned with all of the other side.
struct Side {
  const X* letters;
  const long long* offsets;
  long long is_one;
  DEVICE const X* sequence(long long pair, long long& length) const {
    const long long k = is_one ? 0 : pair, first = offsets[k];
    length = offsets[k + 1] - first;
    return letters + first;
  }
};
struct Pairs {
  Side queries, targets;
  ResultCell* best_cells;
  T* rows;      // one for each warp
  Unit* taken;  // number of pairs taken
  Alphabet alphabet;
  const int* order;  // indices of the pairs, or null for all
  long long count, longest, is_profile_shared;
};

__shared__ Codes codes[WARPS];
__shared__ Ring rings[WARPS];

// A value below any score.
DEVICE inline T least() {
  if constexpr (is_real<T>::value) return -infinity<T>();
  else return T(-(1ll << (8 * sizeof(T) - 2)));
}
// H before the first character of one sequence, and after character `place` of the other.
DEVICE inline T border(const Scores& s, int index) {
  return MODE != IS_GLOBAL || index < 0 ? T(0) : s.gap + T(index) * s.extend;
}

struct Pair {
  const X *query, *target;
  long long rows, columns;
  DEVICE Pair(const Pairs& all, long long number)
      : query(all.queries.sequence(number, rows)), target(all.targets.sequence(number, columns)) {}
};

// A column's letter and the cells above it, while they are loaded from device memory. They are used
// only when they are needed, since the first use waits for the load.
struct Prefetch {
  X letter;
  T score, gap;

  DEVICE void load_letter(const Pair& pair, long long column) {
    letter = column < pair.columns ? pair.target[column] : X(0);
  }
  DEVICE void load_cells(const Pair& pair, const Scores& s, const T* row, bool is_first,
                         int column) {
    if (is_first) {
      score = border(s, column);
      gap = score + s.gap;
    } else if (column < pair.columns) {
      score = row[column * NUMBERS];
      if (AFFINE) gap = row[column * NUMBERS + 1];
    }
  }
};

// Receivers of a strip's last row: the next strip, or the best cell of a semi-global alignment, or
// none.
struct ToRow {
  T* row;
  DEVICE void operator()(int, int column, int k, const Strip& strip) const {
    row[column * NUMBERS] = strip.bottom[k];
    if (AFFINE) row[column * NUMBERS + 1] = strip.gap[k];
  }
};
struct ToBest {
  int last_row;
  DEVICE void operator()(int, int column, int k, Strip& strip) const {
    if (strip.last[k] > strip.best.score) strip.best = {strip.last[k], last_row, column};
  }
};
struct ToNothing {
  DEVICE void operator()(int, int, int, const Strip&) const {}
};
struct StoreNothing {
  DEVICE void operator()(int, const T (&)[R]) const {}
};

DEVICE inline void init_strip(Strip& strip, const Pair& pair, const Pairs& all, const Scores& s,
                              const LaneRows& rows) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    strip.h[r] = border(s, rows.first + r);
    if (AFFINE) strip.e[r] = strip.h[r] + s.gap;
  }
  strip.above = border(s, rows.first - 1);
  strip.best = {strip.bar = MODE == IS_LOCAL ? T(0) : least(), -1, -1};
  Profile* profile = (Profile*)shared_bytes;
  if (!all.is_profile_shared) {
    profile += warp() * int(all.alphabet.size) * 32;
    if (SOURCE == BYTES) fill(profile, pair.query, rows, all.alphabet);
  }
  strip.letters.load_query(pair.query, rows, all.alphabet, profile);
}

// The operands of a strip in a round of columns.
struct Round {
  const Pairs& all;
  const Scores& scores;
  const LaneRows& rows;
  int first, columns;

  template <int KIND, class ExportRow>
  DEVICE void advance_by(Strip& strip, ExportRow export_row) const {
    advance<KIND>(strip, rings[warp()], codes[warp()], first, columns, rows, scores,
                  all.alphabet.table, export_row, StoreNothing());
  }
  template <class ExportRow> DEVICE void operator()(Strip& strip, ExportRow export_row) const {
    if (first < 32 * K || first + C > columns) advance_by<BORDER>(strip, export_row);
    else advance_by<INSIDE>(strip, export_row);
  }
};

// Compute the strip whose first row is `first`, and return its best cell in each lane.
DEVICE inline Best walk_strip(const Pairs& all, const Pair& pair, const Scores& s, T* row, long long first) {
  const LaneRows rows = rows_of_lane(first, pair.rows);
  const bool is_first = first == 0, is_last = first + ROWS >= pair.rows;
  const int columns = int(pair.columns), rounds = rounds_of(columns);
  Codes& warp_codes = codes[warp()];
  Strip strip;
  init_strip(strip, pair, all, s, rows);
  Prefetch prefetch;
  __syncwarp();
  if (lane() < C) {
    prefetch.load_letter(pair, lane());
    warp_codes.put(lane(), as_code(prefetch.letter));
    prefetch.load_cells(pair, s, row, is_first, lane());
    prefetch.load_letter(pair, lane() + C);
  }
  for (int round = 0; round < rounds; ++round) {
    const int first_column = round * C, column = first_column + lane();
    __syncwarp();
    if (lane() < C) {
      rings[warp()].put(column, prefetch.score, prefetch.gap);
      warp_codes.put(column + C, as_code(prefetch.letter));
      prefetch.load_cells(pair, s, row, is_first, column + C);
      prefetch.load_letter(pair, column + 2 * C);
    }
    __syncwarp();
    if (round == 0) strip.letters.start(warp_codes);
    const Round walk = {all, s, rows, first_column, columns};
    if (!is_last) walk(strip, ToRow{row});
    else if (MODE == IS_SEMI_GLOBAL) walk.advance_by<LAST>(strip, ToBest{int(pair.rows) - 1});
    else walk(strip, ToNothing());
  }
  if (MODE == IS_LOCAL) return strip.best;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const bool is_end = is_last && lane() == rows.last_lane && r == rows.last;
    if (MODE == IS_SEMI_GLOBAL ? r < rows.count : is_end)
      strip.best.take({strip.h[r], rows.first + r, columns - 1});
  }
  return strip.best;
}

// If one sequence is empty, the other one is aligned with a gap.
DEVICE inline Best without_letters(const Pair& pair, const Scores& s) {
  const int last_row = int(pair.rows) - 1, last_column = int(pair.columns) - 1;
  if (MODE == IS_LOCAL) return {T(0), -1, -1};
  return {border(s, last_row > last_column ? last_row : last_column), last_row, last_column};
}

DEVICE inline Best align_pair(const Pairs& all, const Pair& pair, const Scores& s, T* row) {
  if (pair.rows == 0 || pair.columns == 0) return without_letters(pair, s);
  Best best = walk_strip(all, pair, s, row, 0);
  for (long long first = ROWS; first < pair.rows; first += ROWS)
    best.take(walk_strip(all, pair, s, row, first));
  best.reduce();
  return best;
}

DEVICE inline void align_pairs(const Pairs& all, const Scores& s) {
  codes[warp()].clear(lane(), 32);
  __syncwarp();
  if (SOURCE == BYTES && all.is_profile_shared) {
    const Pair pair(all, 0);
    const LaneRows rows = rows_of_lane(0, pair.rows);
    if (warp() == 0) fill((Profile*)shared_bytes, pair.query, rows, all.alphabet);
    __syncthreads();
  }
  T* row = all.rows + ((long long)blockIdx.x * WARPS + warp()) * (all.longest * NUMBERS);
  while (true) {
    Unit number = 0;
    if (lane() == 0) number = atomicAdd(all.taken, 1ull);
    number = __shfl_sync(ALL, number, 0);
    if (number >= Unit(all.count)) return;
    if (all.order != nullptr) number = all.order[number];
    const Best best = align_pair(all, Pair(all, number), s, row);
    if (lane() == 0) all.best_cells[number] = best.as_result();
  }
}

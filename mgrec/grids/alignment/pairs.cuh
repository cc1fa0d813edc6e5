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
    const long long k = is_one ? 0 : pair, begin = offsets[k];
    length = offsets[k + 1] - begin;
    return letters + begin;
  }
};
struct Pairs {
  Side queries, targets;
  Found* found;
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
DEVICE inline T border(const Scores& s, int place) {
  return MODE != IS_GLOBAL || place < 0 ? T(0) : s.gap + T(place) * s.extend;
}

struct Pair {
  const X *query, *target;
  long long rows, columns;
  DEVICE Pair(const Pairs& all, long long number)
      : query(all.queries.sequence(number, rows)), target(all.targets.sequence(number, columns)) {}
};

// A column's letter and the cells above it, while they are loaded from device memory. They are used
// only when they are needed, since the first use waits for the load.
struct Coming {
  X letter;
  T score, gap;

  DEVICE void ask_letter(const Pair& pair, long long column) {
    letter = column < pair.columns ? pair.target[column] : X(0);
  }
  DEVICE void ask(const Pair& pair, const Scores& s, const T* row, bool is_first, int column) {
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
struct ToNobody {
  DEVICE void operator()(int, int, int, const Strip&) const {}
};
struct Keep {
  DEVICE void operator()(int, const T (&)[R]) const {}
};

DEVICE inline void enter(Strip& strip, const Pair& pair, const Pairs& all, const Scores& s, const Place& at) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    strip.h[r] = border(s, at.row + r);
    if (AFFINE) strip.e[r] = strip.h[r] + s.gap;
  }
  strip.above = border(s, at.row - 1);
  strip.best = {strip.bar = MODE == IS_LOCAL ? T(0) : least(), -1, -1};
  Profile* profile = (Profile*)shared_bytes;
  if (!all.is_profile_shared) {
    profile += warp() * int(all.alphabet.kinds) * 32;
    if (SOURCE == BYTES) fill(profile, pair.query, at, all.alphabet);
  }
  strip.letters.begin(pair.query, at, all.alphabet, profile);
}

// The operands of a strip in a round of columns.
struct Round {
  const Pairs& all;
  const Scores& scores;
  const Place& at;
  int first, columns;

  template <int KIND, class Leave> DEVICE void advance_by(Strip& strip, Leave leave) const {
    advance<KIND>(strip, rings[warp()], codes[warp()], first, columns, at, scores,
                  all.alphabet.table, leave, Keep());
  }
  template <class Leave> DEVICE void operator()(Strip& strip, Leave leave) const {
    if (first < 32 * K || first + C > columns) advance_by<BORDER>(strip, leave);
    else advance_by<INSIDE>(strip, leave);
  }
};

// Compute the strip whose first row is `first`, and return its best cell in each lane.
DEVICE inline Best walk_strip(const Pairs& all, const Pair& pair, const Scores& s, T* row, long long first) {
  const Place at = place_of(first, pair.rows);
  const bool is_first = first == 0, is_last = first + ROWS >= pair.rows;
  const int columns = int(pair.columns), rounds = rounds_of(columns);
  Codes& own_codes = codes[warp()];
  Strip strip;
  enter(strip, pair, all, s, at);
  Coming coming;
  __syncwarp();
  if (lane() < C) {
    coming.ask_letter(pair, lane());
    own_codes.put(lane(), as_code(coming.letter));
    coming.ask(pair, s, row, is_first, lane());
    coming.ask_letter(pair, lane() + C);
  }
  for (int round = 0; round < rounds; ++round) {
    const int begin = round * C, column = begin + lane();
    __syncwarp();
    if (lane() < C) {
      rings[warp()].put(column, coming.score, coming.gap);
      own_codes.put(column + C, as_code(coming.letter));
      coming.ask(pair, s, row, is_first, column + C);
      coming.ask_letter(pair, column + 2 * C);
    }
    __syncwarp();
    if (round == 0) strip.letters.start(own_codes);
    const Round walk = {all, s, at, begin, columns};
    if (!is_last) walk(strip, ToRow{row});
    else if (MODE == IS_SEMI_GLOBAL) walk.advance_by<LAST>(strip, ToBest{int(pair.rows) - 1});
    else walk(strip, ToNobody());
  }
  if (MODE == IS_LOCAL) return strip.best;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const bool is_end = is_last && lane() == at.last_lane && r == at.last;
    if (MODE == IS_SEMI_GLOBAL ? r < at.rows : is_end) strip.best.take({strip.h[r], at.row + r, columns - 1});
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
    const Place at = place_of(0, pair.rows);
    if (warp() == 0) fill((Profile*)shared_bytes, pair.query, at, all.alphabet);
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
    if (lane() == 0) all.found[number] = best.found();
  }
}

// A strip of 32 * R rows of the query, walked along the target by a warp.
//
// A lane has R rows in registers. It is one step of K columns behind the lane before, from which it
// receives H of the row above and F of its first row; lane 0 reads them from a ring. E and F are
// stored as those of the next column and the next row.
#pragma once
#include "grids/alignment/cuda/letters.cuh"

template <class N> struct wide_of { typedef long long type; };
template <> struct wide_of<double> { typedef double type; };

// The best cell as the host reads it.
struct Found {
  typename wide_of<T>::type score;
  long long row, column;
};

struct Best {
  T score;
  int row, column;

  DEVICE void take(const Best& other) {
    const bool is_first = other.column < column || (other.column == column && other.row < row);
    if (other.score > score || (other.score == score && is_first)) *this = other;
  }
  // Reduce to the best cell of all lanes.
  DEVICE void reduce() {
    for (int distance = 16; distance > 0; distance /= 2) {
      const int from = lane() ^ distance;
      take({from_lane<false>(score, from), __shfl_sync(ALL, row, from),
            __shfl_sync(ALL, column, from)});
    }
  }
  DEVICE Found found() const { return {score, row, column}; }
};

constexpr int ROWS = 32 * R;
constexpr int RING = 4 * C;              // columns
constexpr int NUMBERS = AFFINE ? 2 : 1;  // per column of a row: H, and F

// INSIDE: all lanes are at columns of the target. LAST: the last row is not the last one of its lane.
enum { INSIDE, BORDER, LAST };

// H of a row, and F of the row after it.
struct Ring {
  T scores[RING], gaps[AFFINE ? RING : 1];
  DEVICE void put(int column, T score, T gap) {
    scores[unsigned(column) % RING] = score;
    if (AFFINE) gaps[unsigned(column) % RING] = gap;
  }
};

// Rounds of C columns until the last lane has passed on its last column.
DEVICE inline int rounds_of(long long columns) { return int((columns + 32 * K + C - 1) / C); }

DEVICE inline T larger(T x, T y) { return x > y ? x : y; }

// The place of a lane in the strip whose first row is `first`, in a sequence of a length.
DEVICE inline Place place_of(long long first, long long length) {
  const long long rest = length - first, own = rest - lane() * R;
  const int count = rest < ROWS ? int(rest) : ROWS;
  return {int(first) + lane() * R, own < 0 ? 0 : own < R ? int(own) : R, (count - 1) / R, (count - 1) % R};
}

struct Strip {
  T h[R], e[AFFINE ? R : 1];  // H, and E of the next column
  T above;                    // H above the first row, one column back
  T bottom[K], gap[K];        // H of the last row, and F of the row after it, in a step's columns
  T last[K], last_gap[K];     // the same of the last row within the sequence
  Best best;
  T bar;  // what a score must exceed to be recorded
  Letters letters;

  // Compute column k of a step and return its largest H. `score` is H of the row above, `down` is F
  // of the first row.
  template <int KIND>
  DEVICE T walk(int k, const Beside& beside, T score, T down, const Place& at, const Scores& s,
                const T* table) {
    T diagonal = above, highest = T(0);
    above = score;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      T cell = beside.add(diagonal, r, letters, s, table);
      diagonal = h[r];
      if (AFFINE) {
        cell = larger(cell, e[r]);
        if (LOCAL) cell = larger(cell, T(0));
        score = larger(cell, down);
        e[r] = larger(e[r] + s.extend, score + s.gap);
        // From `cell`, not `score`, since gap <= extend: a shorter chain from row to row.
        down = larger(down + s.extend, cell + s.gap);
      } else {
        cell = larger(cell, h[r] + (SHORT ? s.beside : s.gap));
        if (LOCAL) cell = larger(cell, T(0));
        score = larger(cell, score + s.gap);
      }
      h[r] = score;
      if (LOCAL) highest = larger(highest, score);
      if (r == (KIND == LAST ? at.last : R - 1)) last[k] = score, last_gap[k] = down;
    }
    bottom[k] = score;
    gap[k] = down;
    return highest;
  }
  // Rare, so that it may take as long as the column itself.
  DEVICE void record(const T (&cells)[R], T highest, int column, const Place& at) {
    int row = R;
#pragma unroll
    for (int r = R - 1; r >= 0; --r)
      if (cells[r] == highest) row = r;
    if (at.rows < R) {  // rows outside the sequence do not count
      highest = best.score;
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (r < at.rows && cells[r] > highest) highest = cells[r], row = r;
      if (highest == best.score) return;
    }
    best = {highest, at.row + row, column};
    bar = larger(bar, highest);
  }
  // Lanes need not record scores below those of another lane. They record equal ones: the first
  // column wins, which a later lane may still find.
  DEVICE void raise_bar() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    if constexpr (sizeof(T) == 4) bar = larger(best.score, T(__reduce_max_sync(ALL, int(best.score)) - 1));
#endif
  }
};

// The columns of a step. They are searched for the best cell after all are computed, so that no
// column waits for another.
struct Step {
  T highest[K], before[K][R];  // H of all columns but the last one, which the strip has
  DEVICE void keep(int k, const Strip& strip, T found) {
    highest[k] = found;
    if (k == K - 1) return;
#pragma unroll
    for (int r = 0; r < R; ++r) before[k][r] = strip.h[r];
  }
  DEVICE void record(Strip& strip, int column, const Place& at) const {
    T most = highest[0];
#pragma unroll
    for (int k = 1; k < K; ++k) most = larger(most, highest[k]);
    if (most <= strip.bar) return;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (highest[k] <= strip.bar) continue;
      if (k < K - 1) strip.record(before[k], highest[k], column + k, at);
      else strip.record(strip.h, highest[k], column + k, at);
    }
  }
};

// Compute C columns of a strip, from `first` on in lane 0. `leave` receives the last row's results of
// the step before, `keep` receives every column.
template <int KIND, class Leave, class Keep>
DEVICE inline void advance(Strip& strip, const Ring& in, const Codes& codes, int first, int columns,
                           const Place& at, const Scores& s, const T* table, Leave leave, Keep keep) {
  // All lanes read before they exchange values: otherwise lane 0 would wait twice.
  const volatile T* const scores = in.scores + first % RING;
  const volatile T* const gaps = in.gaps + (AFFINE ? first % RING : 0);
  const StepCodes* const letters = (const StepCodes*)codes.from(first + AHEAD - K * lane());
  const bool is_last_lane = lane() == at.last_lane;
  const auto is_inside = [=](int column) { return KIND == INSIDE || unsigned(column) < unsigned(columns); };
  if (LOCAL) strip.raise_bar();
#pragma unroll(4 / K)
  for (int step = 0; step < C / K; ++step) {
    const int place = step * K, column = first + place - K * lane();
    T score[K], gap[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const T score_in = scores[place + k], gap_in = AFFINE ? gaps[AFFINE ? place + k : 0] : T(0);
      if (is_last_lane && is_inside(column - K + k)) leave(place + k, column - K + k, k, strip);
      score[k] = from_lane<true>(strip.bottom[k], 1);
      gap[k] = AFFINE ? from_lane<true>(strip.gap[k], 1) : T(0);
      score[k] = lane() == 0 ? score_in : score[k];
      gap[k] = lane() == 0 ? gap_in : gap[k];
    }
    const Letters now = strip.letters;
    strip.letters.look_ahead(letters[step]);
    Step found;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      found.highest[k] = T(0);
      if (!is_inside(column + k)) continue;
      const Beside beside(now, k);
      found.keep(k, strip, strip.template walk<KIND>(k, beside, score[k], gap[k], at, s, table));
      keep(place + k, strip.h);
    }
    if (LOCAL) found.record(strip, column, at);
  }
}

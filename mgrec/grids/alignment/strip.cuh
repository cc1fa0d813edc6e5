// A strip of 32 * R rows of the query, walked along the target by a warp.
//
// A lane has R rows in registers. It is one step of K columns behind the lane before, from which it
// receives H of the row above and F of its first row; lane 0 reads them from a ring. E and F are
// stored as those of the next column and the next row.
//
// Letters are scored by comparison (EQUAL), the bytes of a profile (BYTES), or a table.
//
// A profile has the scores of a lane's rows for each letter of the target, four in a word. A dot
// product with one byte adds a score to H without unpacking it.
#pragma once
#include "grids/words.cuh"

enum { EQUAL, BYTES, TABLE };
constexpr int SPAN = C * (W + 3) + 32 * K * W;  // columns of all lanes of a block at one time
constexpr int LETTERS = SPAN <= 128 ? 128 : SPAN <= 256 ? 256 : SPAN <= 512 ? 512 : 1024;
constexpr int CELL_WORDS = (R + 3) / 4;
constexpr int WORDS =
    CELL_WORDS > 2 ? (CELL_WORDS + 3) / 4 * 4 : CELL_WORDS;  // words of 4, 8 or 16 bytes

template <int LETTER_BYTES> struct code_of { typedef int type; };
template <> struct code_of<8> { typedef long long type; };
typedef typename code_of<sizeof(X)>::type Code;

// `gap_from_left` equals `gap`, but the compiler does not merge additions of both.
struct Scores { T gap, extend, gap_from_left, match, mismatch; };

// The score of query code a and target code b is in row a, column b.
struct Alphabet {
  const signed char* bytes;
  const T* table;
  long long size;
};

template <int COUNT> struct alignas(COUNT > 4 ? 16 : COUNT * 4) Words { unsigned word[COUNT]; };
typedef Words<WORDS> Profile;

// Profiles, and other memory whose size the launch sets.
extern __shared__ __align__(16) unsigned char shared_bytes[];

DEVICE inline int lane() { return threadIdx.x % 32; }
DEVICE inline int warp() { return threadIdx.x / 32; }
// The warp's strip in the block; if other warps write the scores, two warps share a strip.
DEVICE inline int strip_of_warp() { return warp() % W; }

// A letter of the target as an index of its scores: a byte offset in a profile.
DEVICE inline Code as_code(X letter) {
  return SOURCE == BYTES ? Code(letter) * Code(32 * sizeof(Profile)) : Code(letter);
}

// The letters of the columns of all lanes, by column modulo LETTERS. The first C are stored twice, so
// that the next C columns of a lane are contiguous.
struct alignas(16) Codes {
  Code of[LETTERS + C];
  DEVICE void put(int column, Code code) {
    const unsigned index = unsigned(column) % LETTERS;
    of[index] = code;
    if (index < C) of[LETTERS + index] = code;
  }
  DEVICE const Code* from(int column) const { return of + unsigned(column) % LETTERS; }
  DEVICE void clear(int thread, int threads) {
    for (int k = thread; k < LETTERS + C; k += threads) of[k] = Code(0);
  }
};
// The codes of the columns of a step, read by one load.
struct alignas(K * sizeof(Code) > 16 ? 16 : K * sizeof(Code)) StepCodes { Code of[K]; };

// Rows of the query that a lane computes.
struct LaneRows {
  int first, count;     // the first row, and the number of rows within the sequence
  int last_lane, last;  // lane and index of the last row within the sequence
  DEVICE bool has(int r) const { return r < count && first + r >= 0; }
};

// Write the scores of a lane's rows with each letter of the target.
DEVICE inline void fill(Profile* profile, const X* query, const LaneRows& rows,
                        const Alphabet& alphabet) {
  const int size = int(alphabet.size);
  int row_offsets[R];
#pragma unroll
  for (int r = 0; r < R; ++r) row_offsets[r] = rows.has(r) ? int(query[rows.first + r]) * size : -1;
  for (int letter = 0; letter < size; ++letter) {
    Profile scores;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) scores.word[w] = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      // Rows outside the sequence must not score more than those within.
      const int score = row_offsets[r] < 0 ? -128 : alphabet.bytes[row_offsets[r] + letter];
      scores.word[r / 4] |= unsigned(score & 255) << 8 * (r % 4);
    }
    profile[letter * 32 + lane()] = scores;
  }
}

constexpr int AHEAD = (SOURCE == BYTES ? 2 : 1) * K;

// A lane's rows of the query, and their scores with the letters of its next step.
struct Letters {
  Code query_codes[SOURCE == BYTES ? 1 : R];
  StepCodes next;
  Profile scores[K];
  const Profile* profile;

  DEVICE void load_query(const X* query, const LaneRows& rows, const Alphabet& alphabet,
                         Profile* filled) {
    profile = filled + lane();
    if (SOURCE == BYTES) return;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Code none = SOURCE == TABLE ? 0 : -(1 << 20);  // no letter of 16 bits
      const Code letter = rows.has(r) ? Code(query[rows.first + r]) : none;
      query_codes[SOURCE == BYTES ? 0 : r] =
          SOURCE == TABLE ? letter * Code(alphabet.size) : letter;
    }
  }
  // Prepare a lane's first step; letters before the first column are arbitrary.
  DEVICE void start(const Codes& codes) {
    next = *(const StepCodes*)codes.from(-K * lane());
    if (SOURCE == BYTES) look_ahead(*(const StepCodes*)codes.from(K - K * lane()));
  }
  // `codes` are the letters AHEAD columns further: a profile is read one step before its use.
  DEVICE void look_ahead(const StepCodes& codes) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (SOURCE == BYTES) scores[k] = *(const Profile*)((const char*)profile + next.of[k]);
    next = codes;
  }
};

// The scores of a lane's rows with one letter.
struct LetterScores {
  Code letter;
  Profile scores;
  DEVICE LetterScores(const Letters& letters, int k)
      : letter(letters.next.of[k]), scores(letters.scores[k]) {}
  DEVICE T add(T score, int r, const Letters& letters, const Scores& s, const T* table) const {
    if constexpr (SOURCE == BYTES)
      return __dp4a(int(scores.word[r / 4]), 1 << 8 * (r % 4), score);
    else if constexpr (SOURCE == TABLE)
      return score + table[letters.query_codes[r] + letter];
    else
      return score + (letters.query_codes[r] == letter ? s.match : s.mismatch);
  }
};

template <class N> struct wide_of { typedef long long type; };
template <> struct wide_of<double> { typedef double type; };

// The best cell as the host reads it.
struct ResultCell {
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
      take({from_lane(score, from), __shfl_sync(ALL, row, from),
            __shfl_sync(ALL, column, from)});
    }
  }
  DEVICE ResultCell as_result() const { return {score, row, column}; }
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

// Return the rounds of C columns until the last lane has exported its last column.
DEVICE inline int rounds_of(long long columns) { return int((columns + 32 * K + C - 1) / C); }

DEVICE inline T larger(T x, T y) { return x > y ? x : y; }

// Return the rows of a lane in the strip whose first row is `first`, in a sequence of a length.
DEVICE inline LaneRows rows_of_lane(long long first, long long length) {
  const long long remaining = length - first, of_lane = remaining - lane() * R;
  const int count = remaining < ROWS ? int(remaining) : ROWS;
  return {int(first) + lane() * R, of_lane < 0 ? 0 : of_lane < R ? int(of_lane) : R,
          (count - 1) / R, (count - 1) % R};
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
  DEVICE T walk(int k, const LetterScores& letter_scores, T score, T down, const LaneRows& rows,
                const Scores& s, const T* table) {
    T diagonal = above, highest = T(0);
    above = score;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      T cell = letter_scores.add(diagonal, r, letters, s, table);
      diagonal = h[r];
      if (AFFINE) {
        cell = larger(cell, e[r]);
        if (LOCAL) cell = larger(cell, T(0));
        score = larger(cell, down);
        e[r] = larger(e[r] + s.extend, score + s.gap);
        // From `cell`, not `score`, since gap <= extend: a shorter chain from row to row.
        down = larger(down + s.extend, cell + s.gap);
      } else {
        cell = larger(cell, h[r] + (SHORT ? s.gap_from_left : s.gap));
        if (LOCAL) cell = larger(cell, T(0));
        score = larger(cell, score + s.gap);
      }
      h[r] = score;
      if (LOCAL) highest = larger(highest, score);
      if (r == (KIND == LAST ? rows.last : R - 1)) last[k] = score, last_gap[k] = down;
    }
    bottom[k] = score;
    gap[k] = down;
    return highest;
  }
  // Rare, so that it may take as long as the column itself.
  DEVICE void record(const T (&cells)[R], T highest, int column, const LaneRows& rows) {
    int row = R;
#pragma unroll
    for (int r = R - 1; r >= 0; --r)
      if (cells[r] == highest) row = r;
    if (rows.count < R) {  // rows outside the sequence do not count
      highest = best.score;
#pragma unroll
      for (int r = 0; r < R; ++r)
        if (r < rows.count && cells[r] > highest) highest = cells[r], row = r;
      if (highest == best.score) return;
    }
    best = {highest, rows.first + row, column};
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
  DEVICE void add(int k, const Strip& strip, T column_highest) {
    highest[k] = column_highest;
    if (k == K - 1) return;
#pragma unroll
    for (int r = 0; r < R; ++r) before[k][r] = strip.h[r];
  }
  DEVICE void record(Strip& strip, int column, const LaneRows& rows) const {
    T most = highest[0];
#pragma unroll
    for (int k = 1; k < K; ++k) most = larger(most, highest[k]);
    if (most <= strip.bar) return;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (highest[k] <= strip.bar) continue;
      if (k < K - 1) strip.record(before[k], highest[k], column + k, rows);
      else strip.record(strip.h, highest[k], column + k, rows);
    }
  }
};

// Compute C columns of a strip, from `first` on in lane 0. `export_row` receives the last row's
// results of the step before, `store_cells` receives every column.
template <int KIND, class ExportRow, class StoreCells>
DEVICE inline void advance(Strip& strip, const Ring& in, const Codes& codes, int first, int columns,
                           const LaneRows& rows, const Scores& s, const T* table,
                           ExportRow export_row, StoreCells store_cells) {
  // All lanes read before they exchange values: otherwise lane 0 would wait twice.
  const volatile T* const scores = in.scores + first % RING;
  const volatile T* const gaps = in.gaps + (AFFINE ? first % RING : 0);
  const StepCodes* const letters = (const StepCodes*)codes.from(first + AHEAD - K * lane());
  const bool is_last_lane = lane() == rows.last_lane;
  const auto is_inside = [=](int column) { return KIND == INSIDE || unsigned(column) < unsigned(columns); };
  if (LOCAL) strip.raise_bar();
#pragma unroll(4 / K)
  for (int step = 0; step < C / K; ++step) {
    const int offset = step * K, column = first + offset - K * lane();
    T score[K], gap[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const T score_in = scores[offset + k], gap_in = AFFINE ? gaps[AFFINE ? offset + k : 0] : T(0);
      if (is_last_lane && is_inside(column - K + k))
        export_row(offset + k, column - K + k, k, strip);
      score[k] = from_below(strip.bottom[k], 1);
      gap[k] = AFFINE ? from_below(strip.gap[k], 1) : T(0);
      score[k] = lane() == 0 ? score_in : score[k];
      gap[k] = lane() == 0 ? gap_in : gap[k];
    }
    const Letters now = strip.letters;
    strip.letters.look_ahead(letters[step]);
    Step results;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      results.highest[k] = T(0);
      if (!is_inside(column + k)) continue;
      const LetterScores letter_scores(now, k);
      const T highest =
          strip.template walk<KIND>(k, letter_scores, score[k], gap[k], rows, s, table);
      results.add(k, strip, highest);
      store_cells(offset + k, strip.h);
    }
    if (LOCAL) results.record(strip, column, rows);
  }
}

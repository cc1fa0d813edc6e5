// One tile: blocks take bands of W strips in order, one strip for each warp.
//
// The strips of a band advance together, C columns in a round, each LAG rounds behind the strip above,
// which exports its last row through shared memory. Bands export rows through words in device
// memory. All bands share one row of words: a band reads a column before it writes that column.
//
// GPUs may share a grid: each has adjacent bands, and its last band exports its rows through the
// words of the next GPU. The process of the GPU before may have ended: when `is_late`, in memory
// of the host, is not 0, a band no longer waits, and scores have no meaning. It becomes 1 when a word
// was read `max_polls` times in vain.
#pragma once
#include "grids/alignment/strip.cuh"
#include "engines/cuda/memory/stores.cuh"

// Edges have the grid's dtype, B. Null edges above and to the left: H is 0, and gaps start there.
struct Tile {
  const X *query, *target;
  const B *above, *left, *above_gaps, *left_gaps;
  B *below, *right, *below_gaps, *right_gaps;
  ResultCell* best_cells;  // for every strip
  B* table;                // H of every cell
  Unit* words;             // initially 0, or of earlier launches with smaller tags
  Alphabet alphabet;
  // `skip` padding rows before the first row, whose scores are 0 as those of the border: then the
  // last row is the last one of a lane.
  long long rows, columns, row_of_table, skip;
  long long first_band, end_band;  // of this launch
  Unit* counter;         // of the bands that blocks have taken
  Unit* next_gpu_words;  // words of the GPU with the next bands, or null
  long long tag, next_gpu_tag;  // before those of the first band, in both words
  volatile long long* is_late;
  long long max_polls;
  DEVICE bool is_from_previous_gpu(int band) const { return first_band > 0 && band == first_band; }
};

__shared__ Codes codes;
__shared__ Ring rings[W + 1];

// In a local alignment, gaps with scores below 0 are never a maximum: they may be clamped.
constexpr int LEAST = -(1 << 30);
DEVICE inline T narrow(B value) {
  if constexpr (sizeof(T) < sizeof(B)) return value < B(LEAST) ? T(LEAST) : T(value);
  else return value;
}

// A column's letter and the cells above it, while they are loaded from device memory. They are
// converted only when they are needed, since the first use waits for the load.
struct Prefetch {
  X letter;
  B edges[NUMBERS];
  Unit words[NUMBERS * UNITS];

  DEVICE void load_letter(const Tile& tile, long long column) {
    letter = column < tile.columns ? tile.target[column] : X(0);
  }
  DEVICE void load_edges(const Tile& tile, long long column) {
    if (tile.above != nullptr) edges[0] = tile.above[column + 1];
    if (AFFINE && tile.above_gaps != nullptr) edges[NUMBERS - 1] = tile.above_gaps[column];
  }
  DEVICE void load_row_above(const Tile& tile, long long column) {
    const volatile Unit* from = tile.words + column * (NUMBERS * UNITS);
#pragma unroll
    for (int u = 0; u < NUMBERS * UNITS; ++u) words[u] = from[u];
  }
  DEVICE void load_cells(const Tile& tile, int band, long long column) {
    if (column >= tile.columns) return;
    if (band == 0) load_edges(tile, column);
    else load_row_above(tile, column);
  }
  DEVICE bool has_arrived(const Tile& tile, int band, long long column) const {
    bool is_complete = true;
#pragma unroll
    for (int u = 0; u < NUMBERS * UNITS; ++u)
      is_complete = is_complete && unsigned(words[u] >> 32) == unsigned(tile.tag) + band;
    return band == 0 || column >= tile.columns || is_complete;
  }
  DEVICE T number(int which) const {
    Packed<T> value;
#pragma unroll
    for (int u = 0; u < UNITS; ++u) value.word[u] = unsigned(words[which * UNITS + u]);
    return value.item;
  }
  DEVICE void put(Ring& ring, const Tile& tile, const Scores& s, int band, int column) const {
    if (band != 0) return ring.put(column, number(0), number(NUMBERS - 1));
    const T score = tile.above == nullptr ? T(0) : narrow(edges[0]);
    const bool is_border = !AFFINE || tile.above_gaps == nullptr;
    ring.put(column, score, is_border ? score + s.gap : narrow(edges[NUMBERS - 1]));
  }
};

// Store the inputs of the first strip of a band for a round, and the letters of the next round.
DEVICE inline void feed(const Tile& tile, const Scores& s, int band, int round,
                        Prefetch& prefetch) {
  const int column = round * C + lane();
  const bool is_loading = lane() < C;
  long long polls = 0;
  while (!__all_sync(ALL, !is_loading || prefetch.has_arrived(tile, band, column))) {
    if (tile.is_from_previous_gpu(band) && ++polls % 256 == 0) {
      if (!__all_sync(ALL, polls <= tile.max_polls && *tile.is_late == 0)) {
        *tile.is_late = 1;
        break;
      }
    }
    if (is_loading) prefetch.load_cells(tile, band, column);
  }
  if (is_loading) {
    prefetch.put(rings[0], tile, s, band, column);
    codes.put(column + C, as_code(prefetch.letter));
    prefetch.load_cells(tile, band, column + C);
    prefetch.load_letter(tile, column + 2 * C);
  }
  __syncwarp();
}

// H of every cell is written to device memory by warps that do not compute. A ring in shared memory
// stores the columns of a strip. While a round is computed, C complete columns of every row are
// written, as whole segments of memory. (Writing parts of segments took twice as long.)

constexpr int STAGED_COLUMNS = 3 * C;  // columns: a round, and up to a segment more
DEVICE inline T* staged_of(const Tile& tile) {
  const int profiles = SOURCE == BYTES ? W * int(tile.alphabet.size) * 32 * int(sizeof(Profile)) : 0;
  return (T*)(shared_bytes + profiles) + strip_of_warp() * (ROWS * PITCH);
}
// `column` is at least -(32 * K + 2 * C).
DEVICE inline int staged_index(int column) {
  return unsigned(column + STAGED_COLUMNS * (K + 32)) % STAGED_COLUMNS;
}

// Rows of different lanes are adjacent, so that the stores of a step have no bank conflicts.
struct StoreCells {
  T* staged;
  int first;
  DEVICE StoreCells(const Tile& tile, int round)
      : staged(MATRIX ? staged_of(tile) + lane() * PITCH : nullptr),
        first(MATRIX ? staged_index(round * C - K * lane()) : 0) {}
  DEVICE void operator()(int offset, const T (&cells)[R]) const {
    if (!MATRIX) return;
    const int index =
        first + offset < STAGED_COLUMNS ? first + offset : first + offset - STAGED_COLUMNS;
#pragma unroll
    for (int r = 0; r < R; ++r) staged[r * 32 * PITCH + index] = cells[r];
  }
};

// Adjacent numbers that a lane writes by one store.
struct alignas(N * sizeof(B)) Vector { B of[N]; };

// Return the start of the last segment of a row that is complete up to a column.
DEVICE inline int segment_before(const B* row, int end) {
  const unsigned numbers = unsigned((unsigned long long)row / sizeof(B)) + end;
  return end - int(numbers % C) - C;
}
template <bool WHOLE>
DEVICE inline void write_segments(const Tile& tile, const LaneRows& rows, int first) {
  constexpr int LANES = C / N, AT_ONCE = 32 / LANES;  // lanes of a segment, and segments at once
  const int k = lane() % LANES * N, part = lane() / LANES;
  const long long top = rows.first - lane() * R, pitch = tile.row_of_table;
  const T* staged = staged_of(tile) + part * PITCH;
#pragma unroll 1
  for (int r = 0; r < R; ++r, staged += 32 * PITCH) {
    long long row = top + part * R + r;
    B* to = tile.table + row * pitch;
#pragma unroll
    for (int owner = part, k0 = 0; k0 < 32; k0 += AT_ONCE, owner += AT_ONCE) {
      const int column = segment_before(to, first + C - K * owner) + k;
      const T* const from = staged + k0 * PITCH;
      Vector vector;
#pragma unroll
      for (int n = 0; n < N; ++n) vector.of[n] = B(from[staged_index(column + n)]);
      if (WHOLE) store_vector(to + column, vector);
#pragma unroll
      for (int n = 0; n < (WHOLE ? 0 : N); ++n)
        if (unsigned(column + n) < unsigned(tile.columns) && row >= 0 && row < tile.rows)
          to[column + n] = vector.of[n];
      row += R * AT_ONCE;
      to += R * AT_ONCE * pitch;
    }
  }
}
// Write the columns that a round has completed; an additional round completes all.
DEVICE inline void write_rows(const Tile& tile, const LaneRows& rows, int round) {
  const int first = round * C;
  const long long top = rows.first - lane() * R;
  const bool is_inside = first >= 31 * K + C && first + C <= tile.columns;
  if (is_inside && top >= 0 && top + ROWS <= tile.rows) write_segments<true>(tile, rows, first);
  else write_segments<false>(tile, rows, first);
}

constexpr int LAG = 1 + 32 * K / C, THREADS = 32 * W * (1 + MATRIX);
static_assert(32 * K % C == 0 && C <= 32 && C % K == 0, "a round is at most a warp's columns");

__shared__ int taken;

struct Band {
  int band, strips, rounds;
  LaneRows rows;
  DEVICE Band(const Tile& tile, int band) : band(band) {
    const long long first = (long long)band * (W * ROWS) - tile.skip;
    const long long strips_left = (tile.rows - first + ROWS - 1) / ROWS;
    strips = strips_left < W ? int(strips_left) : W;
    rounds = rounds_of(tile.columns);
    rows = rows_of_lane(first + strip_of_warp() * ROWS, tile.rows);
  }
  DEVICE bool is_last(const Tile& tile) const {
    return ((long long)band * W + strip_of_warp() + 1) * ROWS >= tile.rows + tile.skip;
  }
  // Until all strips are computed and written, which takes one more round, one iteration later.
  DEVICE int iterations() const { return rounds + LAG * (strips - 1) + 2 * MATRIX; }
  // The round of this warp's strip; outside its range if the warp has no strip.
  DEVICE int round_of(int iteration) const {
    return strip_of_warp() < strips ? iteration - LAG * strip_of_warp() : rounds + 2;
  }
  DEVICE bool has(int round) const { return round >= 0 && round < rounds; }
};

DEVICE inline Profile* profile_of(const Tile& tile) {
  return (Profile*)shared_bytes + warp() * int(tile.alphabet.size) * 32;
}

// Load H and E to the left, and the corner above.
DEVICE inline void load_left_edge(Strip& strip, const Tile& tile, const Band& band,
                                  const Scores& s) {
  const LaneRows& rows = band.rows;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const bool is_row = rows.has(r);
    strip.h[r] = is_row && tile.left != nullptr ? narrow(tile.left[rows.first + r]) : T(0);
    if (AFFINE)
      strip.e[r] = is_row && tile.left_gaps != nullptr ? narrow(tile.left_gaps[rows.first + r])
                                                       : strip.h[r] + s.gap;
  }
  const bool is_inside = rows.count > 0 && rows.first > 0;
  const B* corner =
      is_inside ? tile.left == nullptr ? nullptr : tile.left + rows.first - 1 : tile.above;
  strip.above = corner == nullptr ? T(0) : narrow(*corner);
  strip.best = {strip.bar = T(0), -1, -1};
  if (SOURCE == BYTES) fill(profile_of(tile), tile.query, rows, tile.alphabet);
  strip.letters.load_query(tile.query, rows, tile.alphabet, profile_of(tile));
}
DEVICE inline void store_right_edge(const Strip& strip, const Tile& tile, const LaneRows& rows) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (!rows.has(r)) continue;
    tile.right[rows.first + r] = B(strip.h[r]);
    if (AFFINE) tile.right_gaps[rows.first + r] = B(strip.e[r]);
  }
}

// Receivers of the last row of a strip, column by column: the strip below, or the tile below.
struct ToStrip {
  T *scores, *gaps;  // of a round
  // The columns of a round are contiguous, since the last lane is 32 steps behind.
  DEVICE ToStrip(Ring& ring, int first)
      : scores(ring.scores + unsigned(first - 32 * K) % RING),
        gaps(ring.gaps + (AFFINE ? unsigned(first - 32 * K) % RING : 0)) {}
  DEVICE void operator()(int offset, int, int k, const Strip& strip) const {
    scores[offset] = strip.bottom[k];
    if (AFFINE) gaps[offset] = strip.gap[k];
  }
};
struct ToTile {
  B *below, *below_gaps;
  DEVICE void operator()(int, int column, int k, const Strip& strip) const {
    below[column + 1] = B(strip.last[k]);
    if (AFFINE) below_gaps[column] = B(strip.last_gap[k]);
  }
};
// Publish a round's columns of a band's last row for the band below: a lane and a store each.
DEVICE inline void publish_round(const Tile& tile, const Ring& ring, int first, int below) {
  __syncwarp();
  const int column = first - 32 * K + lane();
  if (lane() < C && unsigned(column) < unsigned(tile.columns)) {
    const bool is_for_next_gpu = tile.next_gpu_words != nullptr && below == tile.end_band;
    const unsigned tag = unsigned(is_for_next_gpu ? tile.next_gpu_tag : tile.tag) + below;
    Unit* words = (is_for_next_gpu ? tile.next_gpu_words : tile.words) +
                  (long long)column * (NUMBERS * UNITS);
    publish(words, ring.scores[column % RING], tag);
    if (AFFINE) publish(words + UNITS, ring.gaps[AFFINE ? column % RING : 0], tag);
  }
  __syncwarp();
}

// The operands of a strip.
struct Walk {
  const Tile& tile;
  const Band& band;
  const Scores& scores;

  template <class ExportRow>
  DEVICE void advance_by(Strip& strip, int round, ExportRow export_row) const {
    const int columns = int(tile.columns), w = warp(), first = round * C;
    const StoreCells store_cells(tile, round);
    const T* table = tile.alphabet.table;
    if (first < 32 * K || first + C > columns)
      advance<BORDER>(strip, rings[w], codes, first, columns, band.rows, scores, table, export_row,
                      store_cells);
    else
      advance<INSIDE>(strip, rings[w], codes, first, columns, band.rows, scores, table, export_row,
                      store_cells);
  }
  DEVICE void advance_last(Strip& strip, int round) const {
    const ToTile export_row = {tile.below, tile.below_gaps};
    if (band.rows.last == R - 1) return advance_by(strip, round, export_row);
    const StoreCells store_cells(tile, round);
    advance<LAST>(strip, rings[warp()], codes, round * C, int(tile.columns), band.rows, scores,
                  tile.alphabet.table, export_row, store_cells);
  }
  DEVICE void operator()(Strip& strip, int round) const {
    const int first = round * C, w = warp();
    if (band.is_last(tile)) {
      advance_last(strip, round);
    } else {
      advance_by(strip, round, ToStrip(rings[w + 1], first));
      if (w + 1 == W) publish_round(tile, rings[W], first, band.band + 1);
    }
  }
};

DEVICE inline void walk_band(const Tile& tile, const Scores& s, const Band& band) {
  const int w = warp();
  const bool is_strip = w < band.strips;
  Strip strip;
  Prefetch prefetch = {};
  if (is_strip) load_left_edge(strip, tile, band, s);
  if (w == 0 && lane() < C) {
    prefetch.load_letter(tile, lane());
    codes.put(lane(), as_code(prefetch.letter));
    prefetch.load_cells(tile, band.band, lane());
    prefetch.load_letter(tile, lane() + C);
  }
  const Walk walk = {tile, band, s};
  for (int iteration = 0; iteration < band.iterations(); ++iteration) {
    if (w == 0 && iteration < band.rounds) feed(tile, s, band.band, iteration, prefetch);
    const int round = band.round_of(iteration);
    if (band.has(round)) {
      if (round == 0) strip.letters.start(codes);
      walk(strip, round);
    }
    __syncthreads();
  }
  if (!is_strip) return;
  store_right_edge(strip, tile, band.rows);
  if (!LOCAL) return;
  strip.best.reduce();
  if (lane() == 0) tile.best_cells[(long long)band.band * W + w] = strip.best.as_result();
}
// The warps that write: write the columns computed before the last barrier.
DEVICE inline void write_band(const Tile& tile, const Band& band) {
  for (int iteration = 0; iteration < band.iterations(); ++iteration) {
    const int round = band.round_of(iteration) - 1;
    if (round >= 0 && round <= band.rounds) write_rows(tile, band.rows, round);
    __syncthreads();
  }
}

DEVICE inline void align_tile(const Tile& tile, const Scores& s) {
  codes.clear(threadIdx.x, THREADS);
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) tile.below[0] = tile.left == nullptr ? B(0) : tile.left[tile.rows - 1];
  while (true) {
    if (threadIdx.x == 0) taken = int(atomicAdd(tile.counter, 1ull));
    __syncthreads();
    const int band = int(tile.first_band) + taken;
    if (band >= tile.end_band) return;
    if (warp() < W) walk_band(tile, s, Band(tile, band));
    else write_band(tile, Band(tile, band));
    __syncthreads();
  }
}

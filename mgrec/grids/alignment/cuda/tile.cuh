// One tile: a block takes bands of W strips, a warp each, in the order in which they come.
//
// Strips of a band go forward together, C columns at a time, each LAG of such rounds behind the one
// above, which hands its last row on through shared memory. Bands hand on through words in device
// memory, a row of them for all bands: a band has read a column before it writes that column.
#pragma once
#include "grids/alignment/cuda/written.cuh"

constexpr int LAG = 1 + 32 * K / C, THREADS = 32 * W * (1 + MATRIX);
static_assert(32 * K % C == 0 && C <= 32 && C % K == 0, "a round is at most a warp's columns");

__shared__ int taken;

struct Band {
  int band, strips, rounds;
  Place at;
  DEVICE Band(const Tile& tile, int band) : band(band) {
    const long long first = (long long)band * (W * ROWS) - tile.skip;
    const long long strips_left = (tile.rows - first + ROWS - 1) / ROWS;
    strips = strips_left < W ? int(strips_left) : W;
    rounds = rounds_of(tile.columns);
    at = place_of(first + strip_of_warp() * ROWS, tile.rows);
  }
  DEVICE bool is_last(const Tile& tile) const {
    return ((long long)band * W + strip_of_warp() + 1) * ROWS >= tile.rows + tile.skip;
  }
  // Until all strips are done, and written: that takes a round more, one meeting later.
  DEVICE int meetings() const { return rounds + LAG * (strips - 1) + 2 * MATRIX; }
  // That of this warp's strip; outside of its rounds where it has none.
  DEVICE int round_of(int meeting) const {
    return strip_of_warp() < strips ? meeting - LAG * strip_of_warp() : rounds + 2;
  }
  DEVICE bool has(int round) const { return round >= 0 && round < rounds; }
};

DEVICE inline Profile* profile_of(const Tile& tile) {
  return (Profile*)shared_bytes + warp() * int(tile.alphabet.kinds) * 32;
}

// H and E to the left, and the corner above.
DEVICE inline void enter(Strip& strip, const Tile& tile, const Band& band, const Scores& s) {
  const Place& at = band.at;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const bool is_row = at.has(r);
    strip.h[r] = is_row && tile.left != nullptr ? narrow(tile.left[at.row + r]) : T(0);
    if (AFFINE)
      strip.e[r] = is_row && tile.left_gaps != nullptr ? narrow(tile.left_gaps[at.row + r])
                                                       : strip.h[r] + s.gap;
  }
  const bool is_inside = at.rows > 0 && at.row > 0;
  const B* corner = is_inside ? tile.left == nullptr ? nullptr : tile.left + at.row - 1 : tile.above;
  strip.above = corner == nullptr ? T(0) : narrow(*corner);
  strip.best = {strip.bar = T(0), -1, -1};
  if (SOURCE == BYTES) fill(profile_of(tile), tile.query, at, tile.alphabet);
  strip.letters.begin(tile.query, at, tile.alphabet, profile_of(tile));
}
DEVICE inline void leave_right(const Strip& strip, const Tile& tile, const Place& at) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (!at.has(r)) continue;
    tile.right[at.row + r] = B(strip.h[r]);
    if (AFFINE) tile.right_gaps[at.row + r] = B(strip.e[r]);
  }
}

// What is told of column after column of a strip's last row: to the strip or to the tile below.
struct ToStrip {
  T *scores, *gaps;  // of a round
  // All of a round's columns are together, since the last lane is 32 steps behind when it tells.
  DEVICE ToStrip(Ring& ring, int first)
      : scores(ring.scores + unsigned(first - 32 * K) % RING),
        gaps(ring.gaps + (AFFINE ? unsigned(first - 32 * K) % RING : 0)) {}
  DEVICE void operator()(int place, int, int k, const Strip& strip) const {
    scores[place] = strip.bottom[k];
    if (AFFINE) gaps[place] = strip.gap[k];
  }
};
struct ToTile {
  B *below, *below_gaps;
  DEVICE void operator()(int, int column, int k, const Strip& strip) const {
    below[column + 1] = B(strip.last[k]);
    if (AFFINE) below_gaps[column] = B(strip.last_gap[k]);
  }
};
// A round's columns of a band's last row, to the band below: a lane each, in one store.
DEVICE inline void publish_round(const Tile& tile, const Ring& ring, int first, unsigned tag) {
  __syncwarp();
  const int column = first - 32 * K + lane();
  if (lane() < C && unsigned(column) < unsigned(tile.columns)) {
    Unit* words = tile.words + 1 + (long long)column * (NUMBERS * UNITS);
    publish(words, ring.scores[column % RING], tag);
    if (AFFINE) publish(words + UNITS, ring.gaps[AFFINE ? column % RING : 0], tag);
  }
  __syncwarp();
}

// What a strip has at hand.
struct Walk {
  const Tile& tile;
  const Band& band;
  const Scores& scores;

  template <class Leave> DEVICE void advance_by(Strip& strip, int round, Leave leave) const {
    const int columns = int(tile.columns), w = warp(), first = round * C;
    const Keep keep(tile, round);
    const T* table = tile.alphabet.table;
    if (first < 32 * K || first + C > columns)
      advance<BORDER>(strip, rings[w], codes, first, columns, band.at, scores, table, leave, keep);
    else
      advance<INSIDE>(strip, rings[w], codes, first, columns, band.at, scores, table, leave, keep);
  }
  DEVICE void advance_last(Strip& strip, int round) const {
    const ToTile leave = {tile.below, tile.below_gaps};
    if (band.at.last == R - 1) return advance_by(strip, round, leave);
    const Keep keep(tile, round);
    advance<LAST>(strip, rings[warp()], codes, round * C, int(tile.columns), band.at, scores,
                  tile.alphabet.table, leave, keep);
  }
  DEVICE void operator()(Strip& strip, int round) const {
    const int first = round * C, w = warp();
    if (band.is_last(tile)) {
      advance_last(strip, round);
    } else {
      advance_by(strip, round, ToStrip(rings[w + 1], first));
      if (w + 1 == W) publish_round(tile, rings[W], first, unsigned(band.band) + 1);
    }
  }
};

DEVICE inline void walk_band(const Tile& tile, const Scores& s, const Band& band) {
  const int w = warp();
  const bool is_strip = w < band.strips;
  Strip strip;
  Coming coming = {};
  if (is_strip) enter(strip, tile, band, s);
  if (w == 0 && lane() < C) {
    coming.ask_letter(tile, lane());
    codes.put(lane(), as_code(coming.letter));
    coming.ask(tile, band.band, lane());
    coming.ask_letter(tile, lane() + C);
  }
  const Walk walk = {tile, band, s};
  for (int meeting = 0; meeting < band.meetings(); ++meeting) {
    if (w == 0 && meeting < band.rounds) feed(tile, s, band.band, meeting, coming);
    const int round = band.round_of(meeting);
    if (band.has(round)) {
      if (round == 0) strip.letters.start(codes);
      walk(strip, round);
    }
    __syncthreads();
  }
  if (!is_strip) return;
  leave_right(strip, tile, band.at);
  if (!LOCAL) return;
  strip.best.reduce();
  if (lane() == 0) tile.found[(long long)band.band * W + w] = strip.best.found();
}
// By the warps that write: what has been computed up to the last meeting.
DEVICE inline void write_band(const Tile& tile, const Band& band) {
  for (int meeting = 0; meeting < band.meetings(); ++meeting) {
    const int round = band.round_of(meeting) - 1;
    if (round >= 0 && round <= band.rounds) write_rows(tile, band.at, round);
    __syncthreads();
  }
}

DEVICE inline void align_tile(const Tile& tile, const Scores& s) {
  codes.clear(threadIdx.x, THREADS);
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) tile.below[0] = tile.left == nullptr ? B(0) : tile.left[tile.rows - 1];
  const int bands = int((tile.rows + tile.skip + W * ROWS - 1) / (W * ROWS));
  while (true) {
    if (threadIdx.x == 0) taken = int(atomicAdd(tile.words, 1ull));
    __syncthreads();
    const int band = taken;
    if (band >= bands) return;
    if (warp() < W) walk_band(tile, s, Band(tile, band));
    else write_band(tile, Band(tile, band));
    __syncthreads();
  }
}

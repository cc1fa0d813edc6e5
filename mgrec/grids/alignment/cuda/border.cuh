// What stands around a tile, and how it comes to the first strip of a band.
#pragma once
#include "grids/alignment/cuda/strip.cuh"

// Edges are of the grid's dtype, B. Null above and to the left: H is 0, and gaps begin there.
struct Tile {
  const X *query, *target;
  const B *above, *left, *above_gaps, *left_gaps;
  B *below, *right, *below_gaps, *right_gaps;
  Found* found;  // of every strip
  M* table;      // H of every cell
  Unit* words;   // all 0; first the number of bands that blocks have taken
  Alphabet alphabet;
  // Before the first row come `skip` more, whose scores are 0, as above and to the left of the
  // grid: the last row is the last one of a lane then.
  long long rows, columns, row_of_table, skip;
};

__shared__ Codes codes;
__shared__ Ring rings[W + 1];

// Of a local alignment, states of gaps below 0 are any: they stay below it.
constexpr int LEAST = -(1 << 30);
DEVICE inline T narrow(B value) {
  if constexpr (sizeof(T) < sizeof(B)) return value < B(LEAST) ? T(LEAST) : T(value);
  else return value;
}

// A column's letter, and what is above it, on their way from device memory: nothing is made of them
// before they are needed, since whoever looks at them waits.
struct Coming {
  X letter;
  B edges[NUMBERS];
  Unit words[NUMBERS * UNITS];

  DEVICE void ask_letter(const Tile& tile, long long column) {
    letter = column < tile.columns ? tile.target[column] : X(0);
  }
  DEVICE void ask_edges(const Tile& tile, long long column) {
    if (tile.above != nullptr) edges[0] = tile.above[column + 1];
    if (AFFINE && tile.above_gaps != nullptr) edges[NUMBERS - 1] = tile.above_gaps[column];
  }
  DEVICE void ask_band(const Tile& tile, long long column) {
    const volatile Unit* from = tile.words + 1 + column * (NUMBERS * UNITS);
#pragma unroll
    for (int u = 0; u < NUMBERS * UNITS; ++u) words[u] = from[u];
  }
  DEVICE void ask(const Tile& tile, int band, long long column) {
    if (column >= tile.columns) return;
    if (band == 0) ask_edges(tile, column);
    else ask_band(tile, column);
  }
  DEVICE bool is_here(const Tile& tile, int band, long long column) const {
    bool is_complete = true;
#pragma unroll
    for (int u = 0; u < NUMBERS * UNITS; ++u)
      is_complete = is_complete && unsigned(words[u] >> 32) == unsigned(band);
    return band == 0 || column >= tile.columns || is_complete;
  }
  DEVICE T number(int which) const {
    Number found;
#pragma unroll
    for (int u = 0; u < UNITS; ++u) found.word[u] = unsigned(words[which * UNITS + u]);
    return found.value;
  }
  DEVICE void put(Ring& ring, const Tile& tile, const Scores& s, int band, int column) const {
    if (band != 0) return ring.put(column, number(0), number(NUMBERS - 1));
    const T score = tile.above == nullptr ? T(0) : narrow(edges[0]);
    const bool is_border = !AFFINE || tile.above_gaps == nullptr;
    ring.put(column, score, is_border ? score + s.gap : narrow(edges[NUMBERS - 1]));
  }
};

// What the first strip of a band needs of a round, and letters of the next one for all.
DEVICE inline void feed(const Tile& tile, const Scores& s, int band, int round, Coming& coming) {
  const int column = round * C + lane();
  const bool is_asked = lane() < C;
  while (!__all_sync(ALL, !is_asked || coming.is_here(tile, band, column)))
    if (is_asked) coming.ask(tile, band, column);
  if (is_asked) {
    coming.put(rings[0], tile, s, band, column);
    codes.put(column + C, as_code(coming.letter));
    coming.ask(tile, band, column + C);
    coming.ask_letter(tile, column + 2 * C);
  }
  __syncwarp();
}

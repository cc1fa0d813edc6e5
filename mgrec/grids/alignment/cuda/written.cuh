// H of every cell, written to device memory by other warps than those that compute it.
//
// Columns of a strip's rows wait in shared memory, in a ring: while a round is computed, C columns of
// every row are written that are complete, whole lines of memory. (Lines of which a part is written
// at a time took twice as long.)
#pragma once
#include "grids/alignment/cuda/border.cuh"
#include "engines/cuda/memory/stores.cuh"

constexpr int KEPT = 3 * C;                          // columns: one round's and up to a line more
constexpr int PITCH = KEPT + (K % 2 == 0 ? 1 : 2);  // lanes, K columns apart, meet no conflicts
DEVICE inline T* staged_of(const Tile& tile) {
  const int profiles = SOURCE == BYTES ? W * int(tile.alphabet.kinds) * 32 * int(sizeof(Profile)) : 0;
  return (T*)(shared_bytes + profiles) + strip_of_warp() * (ROWS * PITCH);
}
// Columns before the first one are at most 32 * K + 2 * C.
DEVICE inline int kept_at(int column) { return unsigned(column + KEPT * (K + 32)) % KEPT; }

// Rows of different lanes lie beside each other, so that a step's stores meet no conflicts.
struct Keep {
  T* staged;
  int first;
  DEVICE Keep(const Tile& tile, int round)
      : staged(MATRIX ? staged_of(tile) + lane() * PITCH : nullptr),
        first(MATRIX ? kept_at(round * C - K * lane()) : 0) {}
  DEVICE void operator()(int place, const T (&cells)[R]) const {
    if (!MATRIX) return;
    const int at = first + place < KEPT ? first + place : first + place - KEPT;
#pragma unroll
    for (int r = 0; r < R; ++r) staged[r * 32 * PITCH + at] = cells[r];
  }
};

// Neighbours that a lane writes at once.
struct alignas(N * sizeof(M)) Pack { M of[N]; };

// Of a row, the last line that is complete up to a column: where it begins.
DEVICE inline int line_before(const M* row, int end) {
  const unsigned numbers = unsigned((unsigned long long)row / sizeof(M)) + end;
  return end - int(numbers % C) - C;
}
template <bool WHOLE>
DEVICE inline void write_lines(const Tile& tile, const Place& at, int first) {
  constexpr int LANES = C / N, AT_ONCE = 32 / LANES;  // of a line, and lines
  const int k = lane() % LANES * N, part = lane() / LANES;
  const long long top = at.row - lane() * R, pitch = tile.row_of_table;
  const T* staged = staged_of(tile) + part * PITCH;
#pragma unroll 1
  for (int r = 0; r < R; ++r, staged += 32 * PITCH) {
    long long row = top + part * R + r;
    M* to = tile.table + row * pitch;
#pragma unroll
    for (int owner = part, k0 = 0; k0 < 32; k0 += AT_ONCE, owner += AT_ONCE) {
      const int column = line_before(to, first + C - K * owner) + k;
      const T* const from = staged + k0 * PITCH;
      Pack pack;
#pragma unroll
      for (int n = 0; n < N; ++n) pack.of[n] = M(from[kept_at(column + n)]);
      if (WHOLE) store_pack(to + column, pack);
#pragma unroll
      for (int n = 0; n < (WHOLE ? 0 : N); ++n)
        if (unsigned(column + n) < unsigned(tile.columns) && row >= 0 && row < tile.rows)
          to[column + n] = pack.of[n];
      row += R * AT_ONCE;
      to += R * AT_ONCE * pitch;
    }
  }
}
// What is complete after a round; a round more than there are completes all.
DEVICE inline void write_rows(const Tile& tile, const Place& at, int round) {
  const int first = round * C;
  const long long top = at.row - lane() * R;
  const bool is_inside = first >= 31 * K + C && first + C <= tile.columns;
  if (is_inside && top >= 0 && top + ROWS <= tile.rows) write_lines<true>(tile, at, first);
  else write_lines<false>(tile, at, first);
}

// H of every cell, written to device memory by rows of a round's columns.
#pragma once
#include "wavefront/alignment/border.cuh"

// A round's columns of a strip's rows wait in shared memory.
constexpr int PITCH = C + 1;
DEVICE inline T* staged_of(const Tile& tile) {
  const int profiles = SOURCE == BYTES ? W * int(tile.alphabet.kinds) * 32 * int(sizeof(Profile)) : 0;
  return (T*)(shared_bytes + profiles) + warp() * (ROWS * PITCH);
}

// Rows of different lanes lie beside each other in shared memory, so that a step's stores meet no
// conflicts; a line of one of them is written at once.
template <bool WHOLE>
DEVICE inline void write_lines(const Tile& tile, const Place& at, const T* staged, int first) {
  const int k = lane() % C, part = lane() / C;
  const long long top = at.row - lane() * R, pitch = tile.row_of_table;
#pragma unroll 1
  for (int r = 0; r < R; ++r, staged += 32 * PITCH) {
    M* to = tile.table + (top + r + part * R) * pitch + (first + k - K * part);
#pragma unroll
    for (int owner = part; owner < 32; owner += 32 / C, to += (R * pitch - K) * (32 / C)) {
      const int column = first + k - K * owner;
      const long long row = top + owner * R + r;
      const bool is_cell = unsigned(column) < unsigned(tile.columns) && row >= 0 && row < tile.rows;
      if (WHOLE || is_cell) *to = M(staged[owner * PITCH + k]);
    }
  }
}
DEVICE inline void write_rows(const Tile& tile, const Place& at, int first) {
  __syncwarp();
  const long long top = at.row - lane() * R;
  const bool is_whole = first >= 31 * K && first + C <= tile.columns && top >= 0 && top + ROWS <= tile.rows;
  if (is_whole) write_lines<true>(tile, at, staged_of(tile), first);
  else write_lines<false>(tile, at, staged_of(tile), first);
  __syncwarp();
}

struct Keep {
  T* staged;
  DEVICE void operator()(int place, const T (&cells)[R]) const {
    if (!MATRIX) return;
#pragma unroll
    for (int r = 0; r < R; ++r) staged[(r * 32 + lane()) * PITCH + place] = cells[r];
  }
};

// Rows of a tile on their way to the table.
//
// A thread writes a word of up to 16 bytes of each. Where rows begin anywhere, lanes exchange
// numbers, so that words are whole but for the first and the last.
#pragma once
#include "grids/table/cuda/tile.cuh"
#include "engines/cuda/memory/stores.cuh"

constexpr int OF_WORD = 16 / int(sizeof(T));  // numbers
static_assert(V <= OF_WORD, "a thread writes a word of a row");

// `to` is where the tile's row begins; `columns` none where it is outside the image.
DEVICE inline void store_words(T* to, const T (&own)[V], int columns) {
  Pack<T> pack;
#pragma unroll
  for (int v = 0; v < V; ++v) pack.v[v] = own[v];
  if (first_column() < columns) store_pack(to + first_column(), pack);
}

// The same where rows begin anywhere: of a row in memory that its threads share, as far behind the
// beginning of a word, its whole words, and its numbers before and after them.
DEVICE inline void store_covered(T* to, const T* row, int first, int end) {
  const int begin = first > 0, whole = end / OF_WORD;
  for (int m = begin + sharer(); m < whole; m += SHARERS)
    ((ulonglong2*)to)[m] = ((const ulonglong2*)row)[m];
  for (int e = sharer(); e < 2 * OF_WORD; e += SHARERS) {
    const bool is_after = e >= OF_WORD;
    const int place = is_after ? (whole - 1) * OF_WORD + e : e;
    if (place < end && (is_after ? whole >= begin : begin && place >= first)) to[place] = row[place];
  }
}
constexpr int EXCHANGED = covered(W * int(sizeof(T))) / int(sizeof(T));
DEVICE inline void store_anywhere(T* to, const T (&own)[V], int columns) {
  __shared__ __align__(16) T exchanged[PARTS * EXCHANGED];
  T* row = exchanged + threadIdx.x / LANES * EXCHANGED;
  const int first = bytes_before(to) / int(sizeof(T));
#pragma unroll
  for (int v = 0; v < V; ++v) row[first + first_column() + v] = own[v];
  sync_sharers();
  store_covered(to - first, row, first, first + columns);
  sync_sharers();
}
// Of all rows of a tile, behind the tiles that are read.
DEVICE inline void store_packed(T* to, const T (&own)[ITEMS][V], int rows, int columns) {
  T* row = (T*)(shared_bytes + STAGES * TILE_BYTES);
  const int first = bytes_before(to) / int(sizeof(T));
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (first_row() + k < rows && first_column() + v < columns)
        row[first + (first_row() + k) * columns + first_column() + v] = own[k][v];
  sync_sharers();
  store_covered(to - first, row, first, first + rows * columns);
  sync_sharers();
}

// Write the numbers of this thread.
DEVICE inline void store(const Images& all, const Cursor& at, const T (&own)[ITEMS][V]) {
  const int rows = at.rows(all), columns = at.columns(all);
  T* to = all.table + at.image * all.batch_of_table + at.row() * all.row_of_table + at.column();
  if constexpr (PACKED) {
    store_packed(to, own, rows, columns);
  } else {
    to += first_row() * all.row_of_table;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k, to += all.row_of_table) {
      const int inside = first_row() + k < rows ? columns : 0;
      if constexpr (ALIGNED) store_words(to, own[k], inside);
      else store_anywhere(to, own[k], inside);
    }
  }
}

// Tiles of an image: PARTS parts of ITEMS rows, each of LANES threads with V contiguous columns.
//
// Asynchronous copies bring rows to shared memory by whole words, some tiles ahead. If rows start
// anywhere, the copies take the words that cover them. Narrow contiguous rows (PACKED) come as one
// row of a whole tile.
//
// Sums within a tile are numbers L: 32 bits hold those of narrow integers, also where T has 64.
//
// A thread writes a word of up to 16 bytes of each row of the table. If rows start anywhere, or a thread
// has more numbers of a row, lanes exchange them, so that neighbours write neighbouring numbers.
#pragma once
#include "grids/words.cuh"
#include "engines/cuda/memory/copies.cuh"
#include "engines/cuda/memory/stores.cuh"

constexpr int PARTS = THREADS / LANES, H = PARTS * ITEMS, W = LANES * V;  // H rows, W columns
// Return the bytes of the words that cover so many bytes, wherever these start.
DEVICE constexpr int covered(int bytes) { return (bytes + 15) / 16 * 16 + 16; }
constexpr int PITCH = IN_WORDS ? W * int(sizeof(X)) : covered(W * int(sizeof(X)));
constexpr int TILE_BYTES = PACKED ? covered(H * W * int(sizeof(X))) : H * PITCH;
static_assert(!PACKED || !(ALIGNED || DOWN), "a packed tile is a band");
static_assert(LANES <= 32 && PARTS * LANES == THREADS, "a part's threads are in one warp");

extern __shared__ __align__(16) unsigned char shared_bytes[];

template <class N> struct alignas(V * sizeof(N) > 16 ? 16 : V * sizeof(N)) Vector { N v[V]; };

// Strides in numbers; columns are contiguous. Edges are contiguous: `above` is the table in the row
// above, and `left` and `right` are the sums of rows before the first column and up to the last
// one. An edge is null if it does not exist or is not requested.
struct Images {
  const X* x;
  T* table;
  const T *above, *left;
  T* right;
  const T* left_down;  // for strips to the right: sums of `left` down to a row
  long long batch_of_x, row_of_x, batch_of_table, row_of_table, count, rows, columns;
  long long strips, steps;  // strips of an image; tiles of a strip
};

// The position of a tile. A block takes every gridDim.x-th strip, and its tiles in order.
struct Cursor {
  int unit, image, strip, step;
  DEVICE Cursor(const Images& all) : unit(blockIdx.x), step(0) { find(all); }
  DEVICE void find(const Images& all) {
    image = unit / int(all.strips);
    strip = unit - image * int(all.strips);
  }
  DEVICE void advance(const Images& all) {
    if (++step < int(all.steps)) return;
    step = 0;
    unit += gridDim.x;
    find(all);
  }
  DEVICE bool exists(const Images& all) const { return image < int(all.count); }
  DEVICE long long row() const { return (long long)(DOWN ? step : strip) * H; }
  DEVICE long long column() const { return (long long)(DOWN ? strip : step) * W; }
  // Rows and columns of the tile inside the image.
  DEVICE int rows(const Images& all) const { return least(all.rows - row(), H); }
  DEVICE int columns(const Images& all) const { return least(all.columns - column(), W); }
  DEVICE bool is_whole(const Images& all) const { return rows(all) == H && columns(all) == W; }
  DEVICE static int least(long long remaining, int most) {
    return remaining < most ? int(remaining) : most;
  }
};

// The position of this thread in a tile.
DEVICE inline int lane() { return threadIdx.x % LANES; }
DEVICE inline int first_row() { return threadIdx.x / LANES * ITEMS; }
DEVICE inline int first_column() { return lane() * V; }

// The number of threads that share a row, and the number of this thread among them.
constexpr int SHARERS = PACKED ? THREADS : LANES;
DEVICE inline int sharer() { return PACKED ? threadIdx.x : lane(); }
DEVICE inline void sync_sharers() {
  if (PACKED) __syncthreads();
  else if (!IN_WORDS) __syncwarp();
}

// Return the start of the row of this thread's first numbers.
DEVICE inline const X* first_of_x(const Images& all, const Cursor& at) {
  const long long row = at.row() + (PACKED ? 0 : first_row());
  return all.x + at.image * all.batch_of_x + row * all.row_of_x + at.column();
}
DEVICE inline unsigned char* slot(int stage, int k) {
  return shared_bytes + stage * TILE_BYTES + (PACKED ? 0 : first_row() + k) * PITCH;
}

// Return the distance of an address from the multiple of 16 bytes before it.
DEVICE inline int bytes_before(const void* address) { return int((unsigned long long)address % 16); }

// Copy the words of a row that contain numbers of the tile.
DEVICE inline void copy_row(unsigned char* to, const X* from, int count) {
  typedef typename word_of<IN_WORDS ? V * int(sizeof(X)) : 16>::type Word;
  constexpr int SIZE = int(sizeof(Word)), BYTES = PACKED ? TILE_BYTES : PITCH;
  constexpr int MOST = (BYTES + SIZE * SHARERS - 1) / (SIZE * SHARERS);
  const int before = IN_WORDS ? 0 : bytes_before(from);
  const Word* words = (const Word*)((const unsigned char*)from - before);
  const int number = (before + count * int(sizeof(X)) + SIZE - 1) / SIZE;
#pragma unroll
  for (int m = 0; m < MOST; ++m)
    if (m * SHARERS + sharer() < number)
      copy_word((Word*)to + m * SHARERS + sharer(), words + m * SHARERS + sharer());
}

DEVICE inline void request(int stage, const Images& all, const Cursor& at) {
  if (at.exists(all)) {
    const int rows = at.rows(all), columns = at.columns(all);
    const X* from = first_of_x(all, at);
    if (PACKED) copy_row(slot(stage, 0), from, rows * columns);
#pragma unroll
    for (int k = 0; k < (PACKED ? 0 : ITEMS); ++k, from += all.row_of_x)
      if (first_row() + k < rows) copy_row(slot(stage, k), from, columns);
  }
  copies_commit();
}

// Wait for all copies of the threads that share rows, except those of the last REST requests.
template <int REST> DEVICE inline void await() {
  copies_wait_but<REST>();
  sync_sharers();
}

// Read V numbers from anywhere in shared memory.
DEVICE inline Vector<X> read_anywhere(const X* from) {
  Vector<X> vector;
  if constexpr (V * sizeof(X) == 4 && sizeof(X) < 4) {  // two words, shifted
    const unsigned long long address = (unsigned long long)from;
    const unsigned* const words = (const unsigned*)(address / 4 * 4);
    const unsigned word = (unsigned)((words[0] | (unsigned long long)words[1] << 32) >> address % 4 * 8);
    memcpy(&vector, &word, sizeof(word));
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) vector.v[v] = from[v];
  }
  return vector;
}

// Read the numbers of this thread, 0 outside the image.
template <bool IS_WHOLE>
DEVICE inline void read(int stage, const Images& all, const Cursor& at, L (&cells)[ITEMS][V]) {
  const int rows = at.rows(all) - first_row(), columns = at.columns(all) - first_column();
  const X* row = first_of_x(all, at);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k, row += PACKED ? 0 : all.row_of_x) {
    const X* from = (const X*)(slot(stage, k) + (IN_WORDS ? 0 : bytes_before(row))) + first_column();
    if (PACKED) from += (first_row() + k) * int(all.columns);
    typedef typename word_of<V * int(sizeof(X))>::type Word;
    Word word = {};  // as a whole: selecting single numbers takes twice the instructions
    if (IN_WORDS && (IS_WHOLE || (k < rows && columns > 0))) word = *(const Word*)from;
    Vector<X> vector;
    memcpy(&vector, &word, sizeof(word));
    if (!IN_WORDS && IS_WHOLE) vector = read_anywhere(from);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!IN_WORDS && !IS_WHOLE) vector.v[v] = k < rows && v < columns ? from[v] : X(0);
      cells[k][v] = cast<L>(vector.v[v]);
    }
  }
}
DEVICE inline void read(int stage, const Images& all, const Cursor& at, L (&cells)[ITEMS][V]) {
  if (!IN_WORDS && at.is_whole(all)) read<true>(stage, all, at, cells);
  else read<false>(stage, all, at, cells);
  sync_sharers();
}

constexpr int OF_WORD = 16 / int(sizeof(T));  // numbers in a word
constexpr bool OUT_WORDS = ALIGNED && V <= OF_WORD;

// Write a row of a tile to `to`; `columns` is 0 outside the image.
DEVICE inline void store_words(T* to, const T (&values)[V], int columns) {
  Vector<T> vector;
#pragma unroll
  for (int v = 0; v < V; ++v) vector.v[v] = values[v];
  if (first_column() < columns) store_vector(to + first_column(), vector);
}

// Write a row that starts anywhere in a word: its whole words, and the numbers before and after
// them. `row` is in shared memory, at the same distance from the start of a word.
DEVICE inline void store_covered(T* to, const T* row, int first, int end) {
  const int first_word = first > 0, whole = end / OF_WORD;
  for (int m = first_word + sharer(); m < whole; m += SHARERS)
    ((ulonglong2*)to)[m] = ((const ulonglong2*)row)[m];
  for (int e = sharer(); e < 2 * OF_WORD; e += SHARERS) {
    const bool is_after = e >= OF_WORD;
    const int index = is_after ? (whole - 1) * OF_WORD + e : e;
    if (index < end && (is_after ? whole >= first_word : first_word && index >= first))
      to[index] = row[index];
  }
}
// Write a row by neighbouring threads, from shared memory. With 16 lanes the two
// rows of a warp are in different banks.
constexpr int EXCHANGED = W + (LANES == 16 ? 16 : 0);
DEVICE inline void store_exchanged(T* to, const T (&values)[V], int columns) {
  __shared__ __align__(16) T exchanged[PARTS * EXCHANGED];
  T* row = exchanged + threadIdx.x / LANES * EXCHANGED;
#pragma unroll
  for (int v = 0; v < V; ++v) row[first_column() + v] = values[v];
  __syncwarp();
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (v * LANES + lane() < columns) to[v * LANES + lane()] = row[v * LANES + lane()];
  __syncwarp();
}
// Write all rows of a packed tile, through shared memory after the tiles that are read.
DEVICE inline void store_packed(T* to, const T (&cells)[ITEMS][V], int rows, int columns) {
  T* row = (T*)(shared_bytes + STAGES * TILE_BYTES);
  const int first = bytes_before(to) / int(sizeof(T));
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (first_row() + k < rows && first_column() + v < columns)
        row[first + (first_row() + k) * columns + first_column() + v] = cells[k][v];
  sync_sharers();
  store_covered(to - first, row, first, first + rows * columns);
  sync_sharers();
}

// Write the numbers of this thread: those of a row are `values_of(k)`.
template <class Values>
DEVICE inline void store(const Images& all, const Cursor& at, Values values_of) {
  const int rows = at.rows(all), columns = at.columns(all);
  T* to = all.table + at.image * all.batch_of_table + at.row() * all.row_of_table + at.column();
  if constexpr (PACKED) {
    T cells[ITEMS][V];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) values_of(k, cells[k]);
    store_packed(to, cells, rows, columns);
  } else {
    to += first_row() * all.row_of_table;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k, to += all.row_of_table) {
      const int inside = first_row() + k < rows ? columns : 0;
      T values[V];
      values_of(k, values);
      if constexpr (OUT_WORDS) store_words(to, values, inside);
      else store_exchanged(to, values, inside);
    }
  }
}

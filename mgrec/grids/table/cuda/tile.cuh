// Tiles of an image: PARTS runs of ITEMS rows, each by LANES threads with V neighbouring columns.
//
// Rows come to shared memory by asynchronous copies of whole words, some tiles ahead. Where rows
// begin anywhere, they come by the words that cover them; narrow ones that lie one after the other
// (PACKED) come as one row of a whole tile.
#pragma once
#include "grids/cuda/words.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int PARTS = THREADS / LANES, H = PARTS * ITEMS, W = LANES * V;  // H rows, W columns
// Bytes of a row in shared memory, and of a tile.
DEVICE constexpr int covered(int bytes) { return (bytes + 15) / 16 * 16 + 16; }
constexpr int PITCH = IN_WORDS ? W * int(sizeof(X)) : covered(W * int(sizeof(X)));
constexpr int TILE_BYTES = PACKED ? covered(H * W * int(sizeof(X))) : H * PITCH;
static_assert(!PACKED || !(ALIGNED || DOWN), "a packed tile is a band");
static_assert(LANES <= 32 && PARTS * LANES == THREADS, "a part's threads are in one warp");

extern __shared__ __align__(16) unsigned char shared_bytes[];

template <class N> struct alignas(V * sizeof(N) > 16 ? 16 : V * sizeof(N)) Pack { N v[V]; };

template <int BYTES> struct word_of { typedef unsigned long long type; };
template <> struct word_of<1> { typedef unsigned char type; };
template <> struct word_of<2> { typedef unsigned short type; };
template <> struct word_of<4> { typedef unsigned type; };
template <> struct word_of<16> { typedef ulonglong2 type; };

// Strides in numbers; neighbouring columns are neighbours in memory. Edges are contiguous:
// `above` has the table over the first row, `left` and `right` the sums of rows before the first
// column and up to the last; null where there are none, or nobody asks.
struct Images {
  const X* x;
  T* table;
  const T *above, *left;
  T* right;
  const T* left_down;  // to the right: sums of `left` down to a row
  long long batch_of_x, row_of_x, batch_of_table, row_of_table, count, rows, columns;
  long long strips, steps;  // of an image; tiles of a strip
};

// A tile: strips are walked down or to the right, a block takes every gridDim.x-th one.
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
  // Of the tile, inside the image.
  DEVICE int rows(const Images& all) const { return least(all.rows - row(), H); }
  DEVICE int columns(const Images& all) const { return least(all.columns - column(), W); }
  DEVICE static int least(long long rest, int most) { return rest < most ? int(rest) : most; }
};

// Of this thread in a tile.
DEVICE inline int lane() { return threadIdx.x % LANES; }
DEVICE inline int first_row() { return threadIdx.x / LANES * ITEMS; }
DEVICE inline int first_column() { return lane() * V; }

// Threads that share a row, and which of them this one is.
constexpr int SHARERS = PACKED ? THREADS : LANES;
DEVICE inline int sharer() { return PACKED ? threadIdx.x : lane(); }
DEVICE inline void sync_sharers() {
  if (PACKED) __syncthreads();
  else if (!IN_WORDS) __syncwarp();
}

// Where a row begins: that of this thread's first numbers.
DEVICE inline const X* first_of_x(const Images& all, const Cursor& at) {
  const long long row = at.row() + (PACKED ? 0 : first_row());
  return all.x + at.image * all.batch_of_x + row * all.row_of_x + at.column();
}
DEVICE inline unsigned char* slot(int stage, int k) {
  return shared_bytes + stage * TILE_BYTES + (PACKED ? 0 : first_row() + k) * PITCH;
}

// Bytes of a word of 16 before an address.
DEVICE inline int bytes_before(const void* address) { return int((unsigned long long)address % 16); }

// The words of a row that hold numbers of the tile.
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

// The copies of those that share rows have come, but for those of the last REST requests.
template <int REST> DEVICE inline void await() {
  copies_wait_but<REST>();
  sync_sharers();
}

// The numbers of this thread; 0 outside the image.
DEVICE inline void read(int stage, const Images& all, const Cursor& at, T (&own)[ITEMS][V]) {
  const int rows = at.rows(all) - first_row(), columns = at.columns(all) - first_column();
  const X* row = first_of_x(all, at);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k, row += PACKED ? 0 : all.row_of_x) {
    const X* from = (const X*)(slot(stage, k) + (IN_WORDS ? 0 : bytes_before(row))) + first_column();
    if (PACKED) from += (first_row() + k) * int(all.columns);
    typedef typename word_of<V * int(sizeof(X))>::type Word;
    Word word = {};  // whole: numbers that are chosen one by one take twice the instructions
    if (IN_WORDS && k < rows && columns > 0) word = *(const Word*)from;
    Pack<X> pack;
    memcpy(&pack, &word, sizeof(word));
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!IN_WORDS) pack.v[v] = k < rows && v < columns ? from[v] : X(0);
      own[k][v] = cast<T>(pack.v[v]);
    }
  }
  sync_sharers();
}

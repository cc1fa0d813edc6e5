// Tiles of an image: PARTS runs of ITEMS rows, each by LANES threads with V neighbouring columns.
//
// Rows come to shared memory by asynchronous copies of whole words, some tiles ahead. Where rows
// begin anywhere, narrow numbers come by the words that cover them.
#pragma once
#include "wavefront/words.cuh"
#include "memory/copies.cuh"

constexpr int PARTS = THREADS / LANES, H = PARTS * ITEMS, W = LANES * V;  // H rows, W columns
constexpr bool COVERED = !ALIGNED && sizeof(X) < 4;
constexpr int PITCH = W * int(sizeof(X)) + (COVERED ? 4 : 0);  // bytes of a row in shared memory
static_assert(LANES <= 32 && PARTS * LANES == THREADS, "a part's threads are in one warp");

extern __shared__ __align__(16) unsigned char shared_bytes[];

template <class N> struct alignas(V * sizeof(N) > 16 ? 16 : V * sizeof(N)) Pack { N v[V]; };

template <int BYTES> struct word_of { typedef unsigned long long type; };
template <> struct word_of<1> { typedef unsigned char type; };
template <> struct word_of<2> { typedef unsigned short type; };
template <> struct word_of<4> { typedef unsigned type; };
template <> struct word_of<16> { typedef ulonglong2 type; };

// One store. From an assignment the compiler makes one of every number, a quarter of a sector each.
DEVICE inline void store_pack(T* to, const Pack<T>& pack) {
#ifdef __CUDA_ARCH__
  unsigned word[(sizeof(Pack<T>) + 3) / 4];
  memcpy(word, &pack, sizeof(pack));
  if constexpr (sizeof(pack) == 16)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3]) : "memory");
  else if constexpr (sizeof(pack) == 8)
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(word[0]), "r"(word[1])
                 : "memory");
  else
#endif
    *(Pack<T>*)to = pack;
}

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

DEVICE inline const X* first_of_x(const Images& all, const Cursor& at) {
  return all.x + at.image * all.batch_of_x + (at.row() + first_row()) * all.row_of_x + at.column();
}
DEVICE inline unsigned char* slot(int stage, int k) {
  return shared_bytes + (stage * H + first_row() + k) * PITCH;
}

// The words of a row that hold numbers of the tile: all lanes of a part share them.
DEVICE inline void copy_row(unsigned char* to, const X* from, int count) {
  typedef typename word_of<ALIGNED ? V * int(sizeof(X)) : COVERED ? 4 : int(sizeof(X))>::type Word;
  const int before = COVERED ? int((unsigned long long)from % 4) : 0;
  const Word* words = (const Word*)((const unsigned char*)from - before);
  const int number = (before + count * int(sizeof(X)) + int(sizeof(Word)) - 1) / int(sizeof(Word));
  constexpr int MOST = (PITCH + int(sizeof(Word)) * LANES - 1) / (int(sizeof(Word)) * LANES);
#pragma unroll
  for (int m = 0; m < MOST; ++m)
    if (m * LANES + lane() < number)
      copy_word((Word*)to + m * LANES + lane(), words + m * LANES + lane());
}

DEVICE inline void request(int stage, const Images& all, const Cursor& at) {
  if (at.exists(all)) {
    const int rows = at.rows(all) - first_row(), columns = at.columns(all);
    const X* from = first_of_x(all, at);
#pragma unroll
    for (int k = 0; k < ITEMS; ++k, from += all.row_of_x)
      if (k < rows) copy_row(slot(stage, k), from, columns);
  }
  copies_commit();
}

// The copies of this part have come, but for those of the last REST requests.
template <int REST> DEVICE inline void await() {
  copies_wait_but<REST>();
  if (!ALIGNED) __syncwarp();
}

// The numbers of this thread; 0 outside the image.
DEVICE inline void read(int stage, const Images& all, const Cursor& at, T (&own)[ITEMS][V]) {
  const int rows = at.rows(all) - first_row(), columns = at.columns(all) - first_column();
  const unsigned long long address = (unsigned long long)first_of_x(all, at);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int before = COVERED ? int((address + k * all.row_of_x * sizeof(X)) % 4) : 0;
    const X* from = (const X*)(slot(stage, k) + before) + first_column();
    typedef typename word_of<V * int(sizeof(X))>::type Word;
    Word word = {};  // whole: numbers that are chosen one by one take twice the instructions
    if (ALIGNED && k < rows && columns > 0) word = *(const Word*)from;
    Pack<X> pack;
    memcpy(&pack, &word, sizeof(word));
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!ALIGNED) pack.v[v] = k < rows && v < columns ? from[v] : X(0);
      own[k][v] = cast<T>(pack.v[v]);
    }
  }
  if (!ALIGNED) __syncwarp();
}

// Write the numbers of this thread: where its own are no word of the row, lanes exchange them.
DEVICE inline void store(const Images& all, const Cursor& at, const T (&own)[ITEMS][V]) {
  constexpr bool DIRECT = ALIGNED && sizeof(T) * V <= 16;
  typedef typename word_of<ALIGNED ? 16 : int(sizeof(T))>::type Word;
  __shared__ __align__(16) T exchanged[DIRECT ? 1 : THREADS * V];
  const int rows = at.rows(all) - first_row(), columns = at.columns(all);
  const int words = columns * int(sizeof(T)) / int(sizeof(Word));
  T* to = all.table + at.image * all.batch_of_table +
          (at.row() + first_row()) * all.row_of_table + at.column();
  T* row = exchanged + (threadIdx.x - lane()) * V;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k, to += all.row_of_table) {
    Pack<T> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) pack.v[v] = own[k][v];
    if constexpr (DIRECT) {
      if (k < rows && first_column() < columns) store_pack(to + first_column(), pack);
      continue;
    }
    *(Pack<T>*)(row + first_column()) = pack;
    __syncwarp();
    if (k < rows)
      for (int m = lane(); m < words; m += LANES) ((Word*)to)[m] = ((const Word*)row)[m];
    __syncwarp();
  }
}

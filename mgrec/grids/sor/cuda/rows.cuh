// Successive over-relaxation: where the rows of a warp are, in memory and in shared memory.
//
// A strip is WARPS bands of 32 rows, a thread a row. Thread r of a band reads row `first` + r; in
// sweep s it computes the row s above that one. So a row needs rows of threads before it and of its
// own alone, for any number of sweeps: strips tell the next one what their last thread computes,
// and nothing the other way. In step t a thread reads column t − 2·(r + 1) and computes column
// t − 2·(r + 1) − s. A tile is STEPS steps of a band.
//
// A launch does GROUPS times SWEEPS sweeps. A group of sweeps reads what the one before it
// computed one step ago, as if the grid were SWEEPS rows and SWEEPS + 1 columns further on.
#pragma once
#include "grids/cuda/words.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int LANES = 32, READ = LANES + 1, AT_ONCE = LANES / STEPS;
constexpr int BEHIND = 2 * LANES / STEPS;        // tiles from a thread's edge to the next band
constexpr int TILES_READ = 3, TILES_OF_RHS = 4;  // in shared memory: the one that is swept, and others
constexpr int HEAD = 3 * (SWEEPS - 1) | 1;       // steps of rhs before a tile, for later sweeps
// Rows lie by steps, so that all threads read one place at a time: by words of 16 bytes, of which
// the pitch is an odd number; right-hand sides one by one, of which it is odd as well. Banks!
constexpr int WORD = 16 / int(sizeof(T)), READ_PITCH = TILES_READ * STEPS + WORD;
constexpr int PITCH = STEPS + WORD;
constexpr int RHS_ROWS = HAS_RHS ? LANES - 1 + SWEEPS : 1;
constexpr int RHS_PITCH = HAS_RHS ? HEAD + TILES_OF_RHS * STEPS : 1;
static_assert(LANES % STEPS == 0 && HEAD <= STEPS && SWEEPS < LANES, "what a row needs is there");

extern __shared__ __align__(16) unsigned char shared_bytes[];

struct Shared {
  // What the last thread of a band computes, and what comes into the first one: two tiles.
  T edges[WARPS + 1][GROUPS][2][SWEEPS][STEPS];
  T read[WARPS][READ][READ_PITCH];             // from the row above the first one on
  T computed[WARPS][GROUPS][2][READ][PITCH];   // by the last sweep of a group, one step later
  T rhs[WARPS][GROUPS][RHS_ROWS][RHS_PITCH];
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "the launch asks for the memory of a block");

DEVICE inline Shared& shared() { return *(Shared*)shared_bytes; }
DEVICE inline int lane() { return threadIdx.x % LANES; }

// `x` may be `result`: a band reads every number before it, or a later one, writes it.
struct Grids {
  const T *x, *rhs;
  T* result;
  unsigned long long* updates;  // of every grid the largest, as bits
  const int* which;             // of the arrays' grids, null for the first ones
  double keep, weight;          // 1 − ω and ω/4
  long long rhs_stride;         // from grid to grid
  long long count, rows, columns, strips, tiles;  // strips of a grid, tiles of a band
  long long slots;                                // for edges of strips
};

// A group's rows of a strip: it reads row `first` + r, and `shift` columns before group 0.
struct Band {
  int unit, grid, strip, number, group, rows, columns, first, shift;
  DEVICE Band(const Grids& all, int unit, int number, int group)
      : unit(unit), number(number), group(group), shift(group * (SWEEPS + 1)) {
    const int place = unit / int(all.strips);
    strip = unit - place * int(all.strips);
    grid = all.which == nullptr ? place : all.which[place];
    rows = int(all.rows);
    columns = int(all.columns);
    first = (strip * WARPS + number) * LANES - group * SWEEPS;
  }
  DEVICE long long stride() const { return (long long)rows * columns; }  // from grid to grid
};

// Rows of a tile, `row` and those after it, each two columns behind the one above: `column` is that
// of the first row and step. A thread has one step of every AT_ONCE-th row.
struct Window {
  int row, column, columns, rows, begin, end;  // rows of the window that the grid has
  DEVICE Window(const Band& band, int row, int column, int count)
      : row(row), column(column), columns(band.columns), rows(band.rows), begin(row < 0 ? -row : 0),
        end(rows - row < count ? rows - row : count) {}
  // Of a row's number at a step, in a grid.
  DEVICE long long place(int k, int step) const {
    return (long long)(row + k) * columns + column + step - 2 * k;
  }
  // Whether all rows have all columns.
  DEVICE bool is_inside() const {
    return column - 2 * (end - 1) >= 0 && column + STEPS - 2 * begin <= columns;
  }
  // Whether all is in the grid, if only in another row: nobody looks at what is read there.
  DEVICE bool is_readable() const {
    return place(begin, 0) >= 0 && place(end - 1, STEPS - 1) < (long long)rows * columns;
  }
  // Call a function of the row's number and the address of this thread's number in a grid.
  template <class N, class Visit>
  DEVICE void visit(bool is_whole, N* grid, Visit number) const {
    const int step = lane() % STEPS, first = begin + lane() / STEPS;
    N* at = grid + place(first, step);
    const long long stride = AT_ONCE * ((long long)columns - 2);
    if (is_whole) {
#pragma unroll 8
      for (int k = first; k < end; k += AT_ONCE, at += stride) number(k, at);
      return;
    }
    unsigned own = column + step - 2 * first;
#pragma unroll 8
    for (int k = first; k < end; k += AT_ONCE, at += stride, own -= 2 * AT_ONCE)
      if (own < unsigned(columns)) number(k, at);
  }
};

DEVICE inline void request_rows(const Grids& all, const Band& band, int tile) {
  const int slot = (tile + TILES_READ) % TILES_READ * STEPS + lane() % STEPS;
  T* to = &shared().read[band.number][0][slot];
  const Window window(band, band.first - 1, tile * STEPS, READ);
  window.visit(window.is_readable(), all.x + band.grid * band.stride(),
               [=](int k, const T* at) { copy_word(to + k * READ_PITCH, at); });
}

// In sweep s, thread r needs of row `first` + r − s what came to it 3·(s − 1) steps ago. The last
// tile of the ring lies before the first one as well.
DEVICE inline void request_rhs(const Grids& all, const Band& band, int tile) {
  const int turn = (tile + TILES_OF_RHS) % TILES_OF_RHS, step = lane() % STEPS;
  const bool is_copied = turn == TILES_OF_RHS - 1 && step >= STEPS - HEAD;
  T* to = &shared().rhs[band.number][band.group][0][HAS_RHS ? HEAD + turn * STEPS + step : 0];
  const int column = tile * STEPS + 2 * SWEEPS - 5 - band.shift;
  const Window window(band, band.first - SWEEPS, column, RHS_ROWS);
  const T* from = all.rhs + band.grid * all.rhs_stride;
  window.visit(window.is_readable(), from, [=](int k, const T* at) {
    copy_word(to + k * RHS_PITCH, at);
    if (is_copied) copy_word(to + k * RHS_PITCH - TILES_OF_RHS * STEPS, at);
  });
}

DEVICE inline void write_rows(const Grids& all, const Band& band, int tile) {
  const T* from = &shared().computed[band.number][band.group][tile & 1][1][lane() % STEPS];
  const int column = tile * STEPS - 3 - SWEEPS - band.shift;
  const Window window(band, band.first - SWEEPS, column, LANES);
  window.visit(window.is_inside(), all.result + band.grid * band.stride(),
               [=](int k, T* at) { *at = from[k * PITCH]; });
}

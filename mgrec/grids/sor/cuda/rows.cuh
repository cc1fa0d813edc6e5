// Successive over-relaxation: the rows of a warp in memory and in shared memory, and the edges of
// strips.
//
// A strip is WARPS bands of 32 rows, one row a thread. Thread r of a band reads row `first` + r,
// and in sweep s it computes the row s above that one. So a row needs only its own values and those
// of rows of earlier threads, for any number of sweeps. A strip exports the results of its last
// thread to the next strip, and nothing in the other direction. In step t a thread reads column t −
// 2·(r + 1) and computes column t − 2·(r + 1) − s. A tile is STEPS steps of a band.
//
// A launch does GROUPS times SWEEPS sweeps. A group of sweeps reads the results that the group
// before it computed one step ago, as if the grid were shifted by SWEEPS rows and SWEEPS + 1
// columns.
//
// Strips reuse slots for their edges. A strip that writes a slot again has received an edge that
// was computed from the slot's previous content, which therefore has been read. The strips between
// a running strip and an unfinished one are at most as many as blocks, fewer than three rounds of
// slots. So four tags identify the rounds.
#pragma once
#include "grids/cuda/words.cuh"
#include "engines/cuda/memory/copies.cuh"

constexpr int LANES = 32, READ = LANES + 1, AT_ONCE = LANES / STEPS;
constexpr int BEHIND = 2 * LANES / STEPS;        // tiles from a thread's edge to the next band
constexpr int TILES_READ = 3, TILES_OF_RHS = 4;  // in shared memory
constexpr int HEAD = 3 * (SWEEPS - 1) | 1;       // steps of rhs before a tile, for later sweeps
// Rows are stored by steps, so that all threads read the same step of their rows. The pitch is an
// odd number of 16-byte words for rows, and of numbers for right-hand sides: no bank conflicts.
constexpr int WORD = 16 / int(sizeof(T)), READ_PITCH = TILES_READ * STEPS + WORD;
constexpr int PITCH = STEPS + WORD;
constexpr int RHS_ROWS = HAS_RHS ? LANES - 1 + SWEEPS : 1;
constexpr int RHS_PITCH = HAS_RHS ? HEAD + TILES_OF_RHS * STEPS : 1;
static_assert(LANES % STEPS == 0 && HEAD <= STEPS && SWEEPS < LANES, "what a row needs is there");

extern __shared__ __align__(16) unsigned char shared_bytes[];

struct Shared {
  // Results of the last thread of a band, and inputs of the first thread, for two tiles.
  T edges[WARPS + 1][GROUPS][2][SWEEPS][STEPS];
  T read[WARPS][READ][READ_PITCH];             // from the row above the first one on
  T computed[WARPS][GROUPS][2][READ][PITCH];   // by the last sweep of a group, one step later
  T rhs[WARPS][GROUPS][RHS_ROWS][RHS_PITCH];
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "the launch asks for the memory of a block");

DEVICE inline Shared& shared() { return *(Shared*)shared_bytes; }
DEVICE inline int lane() { return threadIdx.x % LANES; }

// `x` may be `result`: a band reads every number before this or a later band writes it.
struct Grids {
  const T *x, *rhs;
  T* result;
  unsigned long long* updates;  // the largest of each grid, as bits
  const int* which;             // numbers of the grids in the arrays, null for the first ones
  double keep, weight;          // 1 − ω and ω/4
  long long rhs_stride;         // from grid to grid
  long long count, rows, columns, strips, tiles;  // strips of a grid, tiles of a band
  long long slots;                                // for edges of strips
};

// The rows of a band for a group of sweeps: it reads from row `first` on, `shift` columns behind
// group 0.
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

// Rows of a tile from `row` on, each two columns behind the row above; `column` is that of the
// first row and step. A thread has one step of every AT_ONCE-th row.
struct Window {
  int row, column, columns, rows, begin, end;  // rows of the window that the grid has
  DEVICE Window(const Band& band, int row, int column, int count)
      : row(row), column(column), columns(band.columns), rows(band.rows), begin(row < 0 ? -row : 0),
        end(rows - row < count ? rows - row : count) {}
  // Return the index in the grid of step `step` of row k.
  DEVICE long long place(int k, int step) const {
    return (long long)(row + k) * columns + column + step - 2 * k;
  }
  // Return whether all rows have all columns.
  DEVICE bool is_inside() const {
    return column - 2 * (end - 1) >= 0 && column + STEPS - 2 * begin <= columns;
  }
  // Return whether all addresses are in the grid, if only in another row, whose values are not
  // used.
  DEVICE bool is_readable() const {
    return place(begin, 0) >= 0 && place(end - 1, STEPS - 1) < (long long)rows * columns;
  }
  // Call number(k, address) for this thread's number in each row k.
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

// In sweep s, thread r needs the number of row `first` + r − s that arrived 3·(s − 1) steps ago.
// The last tile of the ring is also stored before the first one.
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

struct Passage {
  Unit* words;
  unsigned epoch;
  DEVICE unsigned tag(const Grids& all, int unit) const {
    return tag_of(epoch) + (unit / int(all.slots) & 3) * 4;
  }
  // Return the address for this thread's step in a tile, in the first sweep of a group.
  DEVICE Unit* place(const Grids& all, int unit, int group, int tile) const {
    const long long tiles = all.tiles - BEHIND, slot = unit % int(all.slots);
    return words + (((slot * tiles + tile) * GROUPS + group) * SWEEPS * STEPS + lane()) * UNITS;
  }
  DEVICE void leave(const Grids& all, const Band& band, int tile) const {
    if (lane() >= STEPS) return;
    Unit* to = place(all, band.unit, band.group, tile);
    const T* from = &shared().edges[WARPS][band.group][tile & 1][0][lane()];
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
      publish(to + s * STEPS * UNITS, from[s * STEPS], tag(all, band.unit));
  }
};

// Words that are loaded long before their use, so that other work hides the latency.
struct Arrival {
  const Unit* from;
  Unit words[SWEEPS][UNITS];
  DEVICE void ask() {
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) load_words(words[s], from + s * STEPS * UNITS);
  }
  DEVICE bool is_complete(unsigned tag) const {
    bool complete = true;
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) complete = complete && has_tag(words[s], tag);
    return complete;
  }
  DEVICE void await(unsigned tag, int group, int tile) {
    while (!is_complete(tag)) ask();
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
      shared().edges[0][group][tile & 1][s][lane()] = value_of(words[s]);
  }
};

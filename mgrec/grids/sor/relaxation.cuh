// Successive over-relaxation: many sweeps for one reading and one writing, with the bits of the
// loop.
//
// A thread computes SWEEPS points a step, none of which needs another point of that step. For each
// band and group of sweeps, one warp sweeps a tile while another warp copies. The copying warp of
// the first group brings the tile after the next to shared memory. That of the last group writes
// the tile before. All of them exchange edges; a single group has two copying warps. All warps
// synchronise after each tile. Strips export edges to the next strip through memory, and blocks
// take strips in order.
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
#include "grids/words.cuh"
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
  unsigned long long* updates;          // the largest of each grid, as bits
  const int* which;                     // indices of the grids, null for the first ones
  double old_weight, neighbour_weight;  // 1 − ω and ω/4
  long long rhs_stride;                 // from grid to grid
  long long count, rows, columns, strips, tiles;  // strips of a grid, tiles of a band
  long long slots;                                // for edges of strips
};

// The rows of a band for a group of sweeps: it reads from row `first` on, `shift` columns behind
// group 0.
struct Band {
  int unit, grid, strip, number, group, rows, columns, first, shift;
  DEVICE Band(const Grids& all, int unit, int number, int group)
      : unit(unit), number(number), group(group), shift(group * (SWEEPS + 1)) {
    const int grid_index = unit / int(all.strips);
    strip = unit - grid_index * int(all.strips);
    grid = all.which == nullptr ? grid_index : all.which[grid_index];
    rows = int(all.rows);
    columns = int(all.columns);
    first = (strip * WARPS + number) * LANES - group * SWEEPS;
  }
  DEVICE long long stride() const { return (long long)rows * columns; }  // from grid to grid
};

// Rows of a tile from `row` on, each two columns behind the row above; `column` is that of the
// first row and step. A thread has one step of every AT_ONCE-th row.
struct Window {
  int row, column, columns, rows, top, bottom;  // rows of the window that the grid has
  DEVICE Window(const Band& band, int row, int column, int count)
      : row(row), column(column), columns(band.columns), rows(band.rows), top(row < 0 ? -row : 0),
        bottom(rows - row < count ? rows - row : count) {}
  // Return the index in the grid of step `step` of row k.
  DEVICE long long index(int k, int step) const {
    return (long long)(row + k) * columns + column + step - 2 * k;
  }
  // Return whether all rows have all columns.
  DEVICE bool is_inside() const {
    return column - 2 * (bottom - 1) >= 0 && column + STEPS - 2 * top <= columns;
  }
  // Return whether all addresses are in the grid, if only in another row, whose values are not
  // used.
  DEVICE bool is_readable() const {
    return index(top, 0) >= 0 && index(bottom - 1, STEPS - 1) < (long long)rows * columns;
  }
  // Call number(k, address) for this thread's number in each row k.
  template <class N, class Visit>
  DEVICE void visit(bool is_whole, N* grid, Visit number) const {
    const int step = lane() % STEPS, first = top + lane() / STEPS;
    N* at = grid + index(first, step);
    const long long stride = AT_ONCE * ((long long)columns - 2);
    if (is_whole) {
#pragma unroll 8
      for (int k = first; k < bottom; k += AT_ONCE, at += stride) number(k, at);
      return;
    }
    unsigned lane_column = column + step - 2 * first;
#pragma unroll 8
    for (int k = first; k < bottom; k += AT_ONCE, at += stride, lane_column -= 2 * AT_ONCE)
      if (lane_column < unsigned(columns)) number(k, at);
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
  const int slot = (tile + TILES_OF_RHS) % TILES_OF_RHS, step = lane() % STEPS;
  const bool is_copied = slot == TILES_OF_RHS - 1 && step >= STEPS - HEAD;
  T* to = &shared().rhs[band.number][band.group][0][HAS_RHS ? HEAD + slot * STEPS + step : 0];
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

struct EdgeExchange {
  Unit* words;
  unsigned epoch;
  DEVICE unsigned tag(const Grids& all, int unit) const {
    return tag_of(epoch) + (unit / int(all.slots) & 3) * 4;
  }
  // Return the address for this thread's step in a tile, in the first sweep of a group.
  DEVICE Unit* address(const Grids& all, int unit, int group, int tile) const {
    const long long tiles = all.tiles - BEHIND, slot = unit % int(all.slots);
    return words + (((slot * tiles + tile) * GROUPS + group) * SWEEPS * STEPS + lane()) * UNITS;
  }
  DEVICE void export_edge(const Grids& all, const Band& band, int tile) const {
    if (lane() >= STEPS) return;
    Unit* to = address(all, band.unit, band.group, tile);
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
  DEVICE void load() {
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
    while (!is_complete(tag)) load();
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s)
      shared().edges[0][group][tile & 1][s][lane()] = value_of(words[s]);
  }
};

typedef word_of<int(sizeof(T))>::type Bits;

// Return the magnitude of a number as an integer; nan is larger than all numbers.
DEVICE inline Bits size_of(T value) {
  union { T value; Bits bits; } both;
  both.value = value;
  return both.bits << 1 >> 1;
}

struct alignas(16) Quad { T v[4]; };

// The values that a thread has before a step, for sweeps 1 to SWEEPS; sweep 0 is the grid that is
// read.
struct Point {
  T now[SWEEPS + 1];    // results of the last step
  T above[SWEEPS + 1];  // next values of the row above: above for sweep s, to the right for sweep s + 1
  T before[SWEEPS];     // the previous ones, which sweep s + 1 replaces
  T ahead;              // the value after `above` in sweep 0
  T old_weight, neighbour_weight;
  Bits update;
  unsigned inside[SWEEPS + 1];  // points of the row of sweep s that are not on the border
  DEVICE Point(const Grids& all, const Band& band)
      : now(), above(), before(), ahead(), old_weight(T(all.old_weight)),
        neighbour_weight(T(all.neighbour_weight)), update(0), inside() {
#pragma unroll
    for (int s = 1; s <= SWEEPS; ++s) {
      const int row = band.first + lane() - s;
      if (row > 0 && row < band.rows - 1) inside[s] = band.columns - 2;
    }
  }
  DEVICE T relaxed(int s, T rhs) const {
    T around = above[s] + now[s];
    around = around + now[s - 1];
    around = around + above[s - 1];
    if (HAS_RHS) around = around - rhs;
    const T old_term = old_weight * before[s - 1], added = neighbour_weight * around;
    return old_term + added;
  }
  // Compute a step. `column` is that of sweep 0. `arriving` are values of the thread before for the
  // next step, and `above_it` is the value that it read, for the step after the next.
  template <bool ALL_INSIDE>
  DEVICE void step(int column, T read, T above_it, const T (&arriving)[SWEEPS],
                   const T* rhs) {
    T fresh[SWEEPS + 1];
    fresh[0] = read;
#pragma unroll
    for (int s = 1; s <= SWEEPS; ++s) {
      const bool is_inside = ALL_INSIDE || unsigned(column - s - 1) < inside[s];
      const T old = before[s - 1];
      const T next = relaxed(s, HAS_RHS ? rhs[-s * RHS_PITCH - 3 * (s - 1)] : T(0));
      fresh[s] = is_inside ? next : old;
      if (IS_CHECKED && s == SWEEPS && is_inside) {
        const Bits size = size_of(next - old);
        update = size > update ? size : update;
      }
    }
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) before[s] = above[s];
    above[0] = ahead;
    ahead = above_it;
    now[0] = fresh[0];
#pragma unroll
    for (int s = 1; s <= SWEEPS; ++s) above[s] = arriving[s - 1], now[s] = fresh[s];
  }
};

// Return whether every point of a tile is inside the border.
DEVICE inline bool is_all_inside(const Band& band, int tile) {
  const int first_column = tile * STEPS - band.shift;
  return band.first > SWEEPS && band.first + LANES <= band.rows &&
         first_column - 2 * LANES - SWEEPS > 0 && first_column + STEPS - 2 < band.columns;
}

// The addresses of a group's inputs and results of a tile in shared memory.
struct TileAddresses {
  const T* rhs;
  const Quad *read, *above, *in;
  Quad *computed, *computed_above, *out;
  DEVICE TileAddresses(const Band& band, int tile) {
    Shared& all = shared();
    const int n = band.number, g = band.group, parity = tile & 1;
    const T* row = g == 0 ? all.read[n][lane()] + tile % TILES_READ * STEPS
                          : all.computed[n][g - 1][parity][lane()];
    above = (const Quad*)row;
    read = (const Quad*)(row + (g == 0 ? READ_PITCH : PITCH));
    rhs = all.rhs[n][g][HAS_RHS ? lane() + SWEEPS : 0];
    if (HAS_RHS) rhs += HEAD + tile % TILES_OF_RHS * STEPS;
    computed_above = (Quad*)all.computed[n][g][parity][0];
    computed = (Quad*)all.computed[n][g][parity][lane() + 1];
    in = (const Quad*)all.edges[n][g][parity];
    out = (Quad*)all.edges[n + 1][g][parity];
  }
};

// The inputs of four steps, read from shared memory four steps before: stores do not delay them
// then.
struct StepInputs {
  Quad from[SWEEPS], read, above;
  DEVICE void load(const TileAddresses& addresses, int k) {
#pragma unroll
    for (int s = 0; s < SWEEPS; ++s) from[s] = addresses.in[s * (STEPS / 4) + k];
    read = addresses.read[k];
    above = addresses.above[k];
  }
};

// Sweep a tile. Values arrive from the thread before. The last thread passes the first one the
// inputs of the band. (With the selection after the shuffle, the compiler waits for the shuffle too
// early.)
template <bool ALL_INSIDE> DEVICE inline void sweep(const Band& band, Point& point, int tile) {
  const TileAddresses addresses(band, tile);
  const int column = tile * STEPS - 2 * (lane() + 1) - band.shift;
  const int before = (lane() + LANES - 1) % LANES;
  const bool is_first = lane() == 0, is_last = lane() == LANES - 1;
  StepInputs next;
  next.load(addresses, 0);
#pragma unroll 4
  for (int k = 0; k < STEPS / 4; ++k) {
    const StepInputs inputs = next;
    next.load(addresses, (k + 1) % (STEPS / 4));
    Quad to[SWEEPS];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      T arriving[SWEEPS];
#pragma unroll
      for (int s = 0; s < SWEEPS; ++s) {
        to[s].v[u] = point.now[s + 1];
        arriving[s] = from_lane(is_last ? inputs.from[s].v[u] : to[s].v[u], before);
      }
      const int step = 4 * k + u;
      point.step<ALL_INSIDE>(column + step, inputs.read.v[u], inputs.above.v[u], arriving,
                             addresses.rhs + step);
    }
    addresses.computed[k] = to[SWEEPS - 1];
    if (GROUPS > 1 && is_first) addresses.computed_above[k] = inputs.from[SWEEPS - 1];
    if (is_last)
#pragma unroll
      for (int s = 0; s < SWEEPS; ++s) addresses.out[s * (STEPS / 4) + k] = to[s];
  }
}

constexpr int SWEEPING = WARPS * GROUPS, CARRIERS = GROUPS > 1 ? GROUPS : 2;
static_assert(THREADS == (SWEEPING + WARPS * CARRIERS) * LANES, "the launch has all warps");

// Copy the rows and edges of a tile. `carrier` is the number of a warp among the copying warps of
// its band.
DEVICE inline void carry(const Grids& all, const Band& band, const EdgeExchange& exchange,
                         int carrier, int tile) {
  const int tiles = int(all.tiles), edges = tiles - BEHIND;
  const int exported_tile = tile - 1 - BEHIND, loaded_tile = tile + 1;
  const bool is_reader = carrier == 0, is_writer = carrier == CARRIERS - 1;
  const bool is_exporting = !ALONE && (GROUPS > 1 || is_writer) && band.number == WARPS - 1 &&
                      band.strip < int(all.strips) - 1;
  const bool is_importing = !ALONE && (GROUPS > 1 || is_reader) && band.number == 0 &&
                            band.strip > 0 && loaded_tile >= 0 && loaded_tile < edges &&
                            lane() < STEPS;
  if (is_exporting && exported_tile >= 0 && exported_tile < edges)
    exchange.export_edge(all, band, exported_tile);
  Arrival arrival;
  if (is_importing) {
    arrival.from = exchange.address(all, band.unit - 1, band.group, loaded_tile);
    arrival.load();
  }
  if (is_writer && tile > 0 && tile <= tiles) write_rows(all, band, tile - 1);
  if (tile >= -3 && tile + 2 < tiles) {
    if (is_reader) request_rows(all, band, tile + 2);
    if (HAS_RHS && carrier < GROUPS) request_rhs(all, band, tile + 2);
  }
  copies_commit();
  if (is_importing) arrival.await(exchange.tag(all, band.unit - 1), band.group, loaded_tile);
  copies_wait();
}

DEVICE inline void relax(const Grids& all, Unit* words = nullptr, unsigned epoch = 0) {
  const EdgeExchange exchange = {words, epoch};
  constexpr int LAST = (BEHIND + 1) * (WARPS - 1) + GROUPS - 1;
  const int warp = threadIdx.x / LANES, tiles = int(all.tiles);
  const bool is_sweeping = warp < SWEEPING;
  const int index = is_sweeping ? warp : warp - SWEEPING;
  const int number = index % WARPS, rank = index / WARPS;
  for (int unit = blockIdx.x; unit < int(all.count * all.strips); unit += gridDim.x) {
    const Band band(all, unit, number, rank < GROUPS ? rank : GROUPS - 1);
    Point point(all, band);
    for (int phase = -3; phase <= tiles + LAST; ++phase) {
      const int tile = phase - (BEHIND + 1) * band.number - band.group;
      if (!is_sweeping) carry(all, band, exchange, rank, tile);
      else if (tile >= 0 && tile < tiles) {
        if (is_all_inside(band, tile)) sweep<true>(band, point, tile);
        else sweep<false>(band, point, tile);
      }
      __syncthreads();
    }
    if (IS_CHECKED && is_sweeping && band.group == GROUPS - 1 && point.update != 0)
      atomicMax(all.updates + unit / int(all.strips), (unsigned long long)point.update);
  }
}

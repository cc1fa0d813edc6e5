// Summed-area tables: R[i, j] = R[i, j-1] + x[i, j] and S[i, j] = S[i-1, j] + R[i, j].
//
// A block processes a strip of an image tile by tile, downwards (DOWN) or to the right. It adds up
// a tile as if the cells before it were 0, and exports the sums of the tile's lines to later
// strips. (Lines are rows if strips go down, else columns.) One tile later it has the sums of
// earlier strips, and
//
//     S of a cell = S within the tile + the sums of lines in all earlier strips, down to its own line
//                 + S at the end of the strip's tile before, in the column (to the right: the row).
//
// The order of additions does not depend on timing.
//
// Strips exchange the sums of a line in one strip, and in all strips up to the end of a group. A
// strip adds up the sums of the earlier strips of its group, and that of the last strip of the
// group before, so it reads no more than one group. Several threads share a line. Their loads
// overlap other work.
#pragma once
#include "grids/table/tile.cuh"

constexpr int LINES = DOWN ? H : W;
// Threads that share a line.
constexpr int LINE_THREADS = ALONE ? 1 : THREADS / LINES < 32 ? THREADS / LINES : 32;
static_assert(ALONE || LINES <= THREADS, "a line has a thread at least");

// The line of this thread when it reads sums, and its number among the threads of the line.
DEVICE inline int line_of_thread() { return threadIdx.x / LINE_THREADS; }
DEVICE inline int thread_rank() { return threadIdx.x % LINE_THREADS; }

struct SumExchange {
  Unit* descriptors;
  unsigned tag;
  DEVICE Unit* of_strip(const Images& all, int unit, long long line) const {
    return descriptors + (unit * (all.steps * LINES) + line) * UNITS;
  }
  DEVICE Unit* of_group(const Images& all, const Cursor& at, int group, long long line) const {
    const int groups = (int(all.strips) - 1) / GROUP + 1;
    return of_strip(all, int(all.count * all.strips) + at.image * groups + group, line);
  }
  DEVICE static long long index(const Cursor& at, int line) {
    return (long long)at.step * LINES + line;
  }
  // Export the sum up to the end of a group, if the strip is the last one of the group.
  DEVICE void export_group_sum(const Images& all, const Cursor& at, int line, T sum) const {
    const int next = at.strip + 1;
    if (next % GROUP == 0 && next < int(all.strips))
      publish(of_group(all, at, at.strip / GROUP, index(at, line)), sum, tag);
  }
};

// The sums of a line in earlier strips of the group: those that this thread reads, and their total.
struct EarlierSums {
  static constexpr int WORDS = (GROUP + LINE_THREADS - 1) / LINE_THREADS;
  const Unit* first;
  int count;  // sums of this thread
  Unit words[WORDS][UNITS];

  // Load the sums; `last` points after the last one.
  DEVICE void load(const Images& all, const Unit* last, int strip_count) {
    const int remaining = line_of_thread() < LINES ? strip_count - thread_rank() : 0;
    count = remaining > 0 ? (remaining + LINE_THREADS - 1) / LINE_THREADS : 0;
    first = last - remaining * stride(all);
    reload(all);
  }
  DEVICE T sum(const Images& all, unsigned tag) {
    while (!is_complete(tag)) reload(all);
    T sum = T(0);
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      if (w < count) sum = np_add(sum, value_of(words[w]));
#pragma unroll
    for (int distance = 1; distance < LINE_THREADS; distance *= 2)
      sum = np_add(sum, from_lane(sum, (threadIdx.x % 32) ^ distance));
    return sum;
  }

 private:
  DEVICE static long long stride(const Images& all) { return all.steps * LINES * UNITS; }
  DEVICE void reload(const Images& all) {
#pragma unroll
    for (int w = 0; w < WORDS; ++w)
      if (w < count) load_words(words[w], first + w * LINE_THREADS * stride(all));
  }
  DEVICE bool is_complete(unsigned tag) const {
    bool complete = true;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) complete = complete && (w >= count || has_tag(words[w], tag));
    return complete;
  }
};

// The sum of a line in all strips before a tile's strip. (Waiting for both kinds of words at once,
// and loading all again while one is missing, took up to 1.5 times as long.)
struct Lookback {
  EarlierSums strips;
  const Unit* group;  // null if there is no earlier group, or another thread reads it
  Unit words[UNITS];

  DEVICE void load(const SumExchange& exchange, const Images& all, const Cursor& at) {
    const int current_group = at.strip / GROUP;
    const long long index = SumExchange::index(at, line_of_thread());
    strips.load(all, exchange.of_strip(all, at.unit, index), at.strip - current_group * GROUP);
    const bool reads_group = current_group > 0 && line_of_thread() < LINES && thread_rank() == 0;
    group = reads_group ? exchange.of_group(all, at, current_group - 1, index) : nullptr;
    if (reads_group) load_words(words, group);
  }
  DEVICE T wait(const SumExchange& exchange, const Images& all) {
    const T sum = strips.sum(all, exchange.tag);
    if (group == nullptr) return sum;
    while (!has_tag(words, exchange.tag)) load_words(words, group);
    return np_add(value_of(words), sum);
  }
};

static_assert(W <= THREADS, "a thread adds up a column at most");

// Double buffers are read while those of the next tile are written.
__shared__ __align__(16) L sums[2][THREADS * V];             // of the columns of every part
__shared__ __align__(16) T ends[2][W];                       // down: the last row of S
__shared__ T totals[2][ALONE ? 1 : LINES];                   // of the lines of a tile
__shared__ __align__(16) T carry_ins[2][ALONE ? W : LINES];  // of the lines in all earlier strips
__shared__ T before[DOWN ? LINES : 1];                       // sums of carry-ins down to a row

template <class N> DEVICE inline void add_to_row(N (&row)[V], N before) {
#pragma unroll
  for (int v = 0; v < V; ++v) row[v] = np_add(before, row[v]);
}
template <class N> DEVICE inline void add_to_row(N (&row)[V], const Vector<N>& columns) {
#pragma unroll
  for (int v = 0; v < V; ++v) row[v] = np_add(columns.v[v], row[v]);
}
DEVICE inline void add_to_columns(L (&cells)[ITEMS][V], const L* before) {
  const Vector<L> columns = *(const Vector<L>*)before;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) add_to_row(cells[k], columns);
}
DEVICE inline int last_lane() { return threadIdx.x % 32 / LANES * LANES + LANES - 1; }

// Compute R within a tile.
DEVICE inline void scan_rows(L (&cells)[ITEMS][V]) {
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
#pragma unroll
    for (int v = 1; v < V; ++v) cells[k][v] = np_add(cells[k][v - 1], cells[k][v]);
    L total = cells[k][V - 1];
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) {
      const L below = from_below(total, distance);
      if (lane() >= distance) total = np_add(below, total);
    }
    if (LANES == 1) continue;
    const L before = from_below(total, 1);
    if (lane() > 0) add_to_row(cells[k], before);
  }
}

// Compute S within a part, and write the sums of its columns.
DEVICE inline void add_down(L (&cells)[ITEMS][V], L* sums) {
  Vector<L> last;
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int k = 1; k < ITEMS; ++k) cells[k][v] = np_add(cells[k - 1][v], cells[k][v]);
    last.v[v] = cells[ITEMS - 1][v];
  }
  ((Vector<L>*)sums)[threadIdx.x] = last;
}
// Replace the sums of a column in each part by those of all parts before; return the total.
DEVICE inline L scan_parts(L* sums, int column, L before) {
#pragma unroll 16
  for (int p = 0; p < PARTS; ++p) {
    const L part = sums[p * W + column];
    sums[p * W + column] = before;
    before = np_add(before, part);
  }
  return before;
}
// Compute the sums of carry-ins down to every row, in one warp. Those of columns need no sums: they
// are sums of R already.
DEVICE inline void scan_carry_ins(const T* carry_ins) {
  constexpr int PER_LANE = (LINES + 31) / 32;
  const int lane = threadIdx.x % 32;
  T prefix[PER_LANE];
#pragma unroll
  for (int k = 0; k < PER_LANE; ++k) {
    const int line = lane * PER_LANE + k;
    const T carry_in = line < LINES ? carry_ins[line] : T(0);
    prefix[k] = k == 0 ? carry_in : np_add(prefix[k > 0 ? k - 1 : 0], carry_in);
  }
  T total = prefix[PER_LANE - 1];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T below = from_below(total, distance);
    if (lane >= distance) total = np_add(below, total);
  }
  const T earlier = from_below(total, 1);
#pragma unroll
  for (int k = 0; k < PER_LANE; ++k)
    if (lane * PER_LANE + k < LINES)
      before[lane * PER_LANE + k] = lane > 0 ? np_add(earlier, prefix[k]) : prefix[k];
}

// Return the values of edges at the position of a thread.
DEVICE inline T above_of(const Images& all, const Cursor& at, int column) {
  const long long index = at.column() + column;
  if (all.above == nullptr || index >= all.columns) return T(0);
  return all.above[at.image * all.columns + index];
}
DEVICE inline Vector<T> above_of(const Images& all, const Cursor& at) {
  Vector<T> above;
#pragma unroll
  for (int v = 0; v < V; ++v) above.v[v] = above_of(all, at, first_column() + v);
  return above;
}
DEVICE inline void of_rows(const Images& all, const Cursor& at, const T* edge, T (&values)[ITEMS]) {
  const int rows = edge == nullptr ? 0 : at.rows(all) - first_row();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    values[k] = k < rows ? edge[at.image * all.rows + at.row() + first_row() + k] : T(0);
}

// Write R at the end of a row to the right edge of the image.
DEVICE inline void store_right(const Images& all, const Cursor& at, int row, T sum) {
  if (all.right != nullptr && row < at.rows(all))
    all.right[at.image * all.rows + at.row() + row] = sum;
}

// The tiles of a strip one after the other, with the state of this thread.
struct Walk {
  T across[ITEMS];  // R at the end of the tile; for strips down, within the tile
  T end[ITEMS];     // for strips to the right: S at the end of the tile before

  // Compute S within a part; the left edge is added to the first cell of a row.
  DEVICE void start(const Images& all, const Cursor& at, L (&cells)[ITEMS][V], L* sums) {
    scan_rows(cells);
    if (at.column() == 0) add_left_edge(all, at, cells);
    const bool is_end = ALONE || (!DOWN && at.step + 1 == int(all.steps));
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const T total = cast<T>(cells[k][V - 1]);
      across[k] = DOWN ? total : np_add(across[k], total);
      if (is_end && lane() == LANES - 1) store_right(all, at, first_row() + k, across[k]);
    }
    add_down(cells, sums);
  }

  // Compute S of a tile from S within it and the sums before it.
  DEVICE void complete(const Images& all, const Cursor& at, const L (&cells)[ITEMS][V], int parity) {
    Vector<T> columns =
        *(const Vector<T>*)((DOWN ? ends[1 - parity] : carry_ins[parity]) + first_column());
    if (DOWN && at.step == 0) columns = above_of(all, at);
    if (!DOWN && at.step == 0) of_rows(all, at, all.left_down, end);
    const Vector<T> above = DOWN || all.above == nullptr ? Vector<T>() : above_of(all, at);
    // Loads before the first store: it might change what they read.
    T row[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) row[k] = DOWN ? before[first_row() + k] : end[k];
    Vector<T> last;
    store(all, at, [&](int k, T (&values)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) values[v] = cast<T>(cells[k][v]);
      add_to_row(values, row[k]);
      add_to_row(values, columns);
      if (!DOWN) end[k] = from_lane(values[V - 1], last_lane());
      if (!DOWN && all.above != nullptr) add_to_row(values, above);
#pragma unroll
      for (int v = 0; v < V; ++v) last.v[v] = values[v];
    });
    if (DOWN && threadIdx.x / LANES == PARTS - 1) *(Vector<T>*)(ends[parity] + first_column()) = last;
  }

 private:
  // Where L is not T, there are no edges.
  DEVICE void add_left_edge(const Images& all, const Cursor& at, L (&cells)[ITEMS][V]) {
    of_rows(all, at, all.left, across);
    if (!DOWN || all.left == nullptr) return;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) add_to_row(cells[k], cast<L>(across[k]));
  }
};

DEVICE inline void add_up_alone(const Images& all) {
  Cursor at(all), later(all);
  Walk walk;
  L cells[ITEMS][V], over = L(0);
  for (int s = 0; s < STAGES; ++s, later.advance(all)) request(s, all, later);
  for (int stage = 0; at.exists(all); at.advance(all), stage = stage + 1 < STAGES ? stage + 1 : 0) {
    await<STAGES - 1>();
    read(stage, all, at, cells);
    request(stage, all, later);
    later.advance(all);
    walk.start(all, at, cells, sums[0]);
    __syncthreads();
    const int column = threadIdx.x;
    if (column < W)
      over = scan_parts(sums[0], column, at.step == 0 ? cast<L>(above_of(all, at, column)) : over);
    __syncthreads();
    add_to_columns(cells, sums[0] + threadIdx.x * V);
    store(all, at, [&](int k, T (&values)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) values[v] = cast<T>(cells[k][v]);
    });
    __syncthreads();
  }
}

// Export the sums of a tile's lines to later strips.
DEVICE inline void export_sum(const SumExchange& exchange, const Images& all, const Cursor& at,
                              int line, T sum, T* totals) {
  totals[line] = sum;
  publish(exchange.of_strip(all, at.unit, SumExchange::index(at, line)), sum, exchange.tag);
}
DEVICE inline void export_row_sums(const SumExchange& exchange, const Images& all, const Cursor& at,
                                   const Walk& walk, T* totals) {
  if (lane() != LANES - 1) return;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    export_sum(exchange, all, at, first_row() + k, walk.across[k], totals);
}

// Read the sums of a tile's lines in earlier strips; `totals` are those of the tile.
DEVICE inline void import_sums(const SumExchange& exchange, const Images& all, const Cursor& at,
                               Lookback& lookback, const T* totals, T* carry_ins) {
  const T carry_in = lookback.wait(exchange, all);
  const int line = line_of_thread();
  if (line >= LINES || thread_rank() != 0) return;
  const T sum = np_add(carry_in, totals[line]);
  carry_ins[line] = carry_in;
  exchange.export_group_sum(all, at, line, sum);
  if (DOWN && at.strip + 1 == int(all.strips)) store_right(all, at, line, sum);
}

// A block: each step starts one of its tiles and completes the tile before.
struct Block {
  const Images& all;
  const SumExchange exchange;
  Cursor at, later, due;
  Walk walk;
  Lookback lookback;
  int stage;
  bool is_due;

  DEVICE Block(const Images& all, const SumExchange& exchange)
      : all(all), exchange(exchange), at(all), later(all), due(all), stage(0), is_due(false) {
    for (int s = 0; s < STAGES; ++s, later.advance(all)) request(s, all, later);
  }
  // Do a step: `known` is S within the tile to complete, `cells` receives S within the next tile.
  template <int PARITY> DEVICE bool step(L (&cells)[ITEMS][V], L (&known)[ITEMS][V]) {
    const bool is_new = at.exists(all);
    if (is_due) lookback.load(exchange, all, due);
    if (is_new) start<PARITY>(cells);
    if (is_due) import_sums(exchange, all, due, lookback, totals[1 - PARITY], carry_ins[PARITY]);
    __syncthreads();
    if (is_new && threadIdx.x < W) {
      const L total = scan_parts(sums[PARITY], threadIdx.x, L(0));
      if (!DOWN) export_sum(exchange, all, at, threadIdx.x, cast<T>(total), totals[PARITY]);
    }
    if (DOWN && is_due && threadIdx.x / 32 == THREADS / 32 - 1) scan_carry_ins(carry_ins[PARITY]);
    __syncthreads();
    if (is_new) add_to_columns(cells, sums[PARITY] + threadIdx.x * V);
    if (is_due) walk.complete(all, due, known, PARITY);
    due = at;
    is_due = is_new;
    if (is_new) at.advance(all);
    return is_new;
  }

 private:
  template <int PARITY> DEVICE void start(L (&cells)[ITEMS][V]) {
    await<STAGES - 1>();
    read(stage, all, at, cells);
    request(stage, all, later);
    later.advance(all);
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    walk.start(all, at, cells, sums[PARITY]);
    if (DOWN) export_row_sums(exchange, all, at, walk, totals[PARITY]);
  }
};

DEVICE inline void add_up(const Images& all, Unit* descriptors, unsigned epoch) {
  Block block(all, {descriptors, tag_of(epoch)});
  L even[ITEMS][V], odd[ITEMS][V];
  while (block.step<0>(even, odd) && block.step<1>(odd, even)) {}
}

// Summed-area tables: R[i, j] = R[i, j-1] + x[i, j] and S[i, j] = S[i-1, j] + R[i, j].
//
// A block walks a strip of an image tile by tile, down (DOWN) or to the right. It adds up a tile as
// if nothing stood before it, and tells the strips after it the sums of the tile's lines (rows where
// strips go down, else columns). One tile later it has heard from the strips before it, and
//
//     S of a cell = S within the tile + the sums of lines in all strips before, down to its own line
//                 + S at the end of the strip's tile before, in the column (to the right: the row).
//
// All is added up in one order, whatever the timing.
#pragma once
#include "grids/table/cuda/ledger.cuh"

static_assert(W <= THREADS, "a thread adds up a column at most");

// Two of what is read while the next tile's is written.
__shared__ __align__(16) T sums[2][THREADS * V];                  // of every part's columns
__shared__ __align__(16) T ends[2][W];                            // down: the last row of S
__shared__ T totals[2][ALONE ? 1 : LINES];                        // of the lines of tiles
__shared__ __align__(16) T entries[2][ALONE ? W : LINES];         // the same in all strips before
__shared__ T before[DOWN ? LINES : 1];                            // of rows, the same down to a row

DEVICE inline void add_to_row(T (&row)[V], T before) {
#pragma unroll
  for (int v = 0; v < V; ++v) row[v] = np_add(before, row[v]);
}
DEVICE inline void add_to_row(T (&row)[V], const Pack<T>& columns) {
#pragma unroll
  for (int v = 0; v < V; ++v) row[v] = np_add(columns.v[v], row[v]);
}
DEVICE inline void add_to_columns(T (&own)[ITEMS][V], const T* before) {
  const Pack<T> columns = *(const Pack<T>*)before;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) add_to_row(own[k], columns);
}
DEVICE inline int last_lane() { return threadIdx.x % 32 / LANES * LANES + LANES - 1; }

// R within a tile.
DEVICE inline void scan_rows(T (&own)[ITEMS][V]) {
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
#pragma unroll
    for (int v = 1; v < V; ++v) own[k][v] = np_add(own[k][v - 1], own[k][v]);
    T total = own[k][V - 1];
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) {
      const T below = from_lane<true>(total, distance);
      if (lane() >= distance) total = np_add(below, total);
    }
    if (LANES == 1) continue;
    const T before = from_lane<true>(total, 1);
    if (lane() > 0) add_to_row(own[k], before);
  }
}

// S within a part; every part leaves the sums of its columns.
DEVICE inline void add_down(T (&own)[ITEMS][V], T* sums) {
  Pack<T> last;
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int k = 1; k < ITEMS; ++k) own[k][v] = np_add(own[k - 1][v], own[k][v]);
    last.v[v] = own[ITEMS - 1][v];
  }
  ((Pack<T>*)sums)[threadIdx.x] = last;
}
// The sum of a column in all parts; what is before every part takes the place of its own.
DEVICE inline T scan_parts(T* sums, int column, T before) {
#pragma unroll 16
  for (int p = 0; p < PARTS; ++p) {
    const T own = sums[p * W + column];
    sums[p * W + column] = before;
    before = np_add(before, own);
  }
  return before;
}
// By a warp: sums of entries down to every row. Those of columns are sums of R, and need none.
DEVICE inline void scan_entries(const T* entries) {
  constexpr int OWN = (LINES + 31) / 32;
  const int lane = threadIdx.x % 32;
  T run[OWN];
#pragma unroll
  for (int k = 0; k < OWN; ++k) {
    const int line = lane * OWN + k;
    const T entry = line < LINES ? entries[line] : T(0);
    run[k] = k == 0 ? entry : np_add(run[k > 0 ? k - 1 : 0], entry);
  }
  T total = run[OWN - 1];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T below = from_lane<true>(total, distance);
    if (lane >= distance) total = np_add(below, total);
  }
  const T earlier = from_lane<true>(total, 1);
#pragma unroll
  for (int k = 0; k < OWN; ++k)
    if (lane * OWN + k < LINES)
      before[lane * OWN + k] = lane > 0 ? np_add(earlier, run[k]) : run[k];
}

// What edges say of the place of a thread.
DEVICE inline T above_of(const Images& all, const Cursor& at, int column) {
  const long long place = at.column() + column;
  if (all.above == nullptr || place >= all.columns) return T(0);
  return all.above[at.image * all.columns + place];
}
DEVICE inline Pack<T> above_of(const Images& all, const Cursor& at) {
  Pack<T> above;
#pragma unroll
  for (int v = 0; v < V; ++v) above.v[v] = above_of(all, at, first_column() + v);
  return above;
}
DEVICE inline void of_rows(const Images& all, const Cursor& at, const T* edge, T (&found)[ITEMS]) {
  const int rows = edge == nullptr ? 0 : at.rows(all) - first_row();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    found[k] = k < rows ? edge[at.image * all.rows + at.row() + first_row() + k] : T(0);
}

// R at the end of a row, for who comes after the image.
DEVICE inline void store_right(const Images& all, const Cursor& at, int row, T sum) {
  if (all.right != nullptr && row < at.rows(all))
    all.right[at.image * all.rows + at.row() + row] = sum;
}

// A strip's tiles one after the other; what is walked with is the thread's own.
struct Walk {
  T across[ITEMS];  // R at the tile's end: down, within it
  T end[ITEMS];     // to the right: S at the end of the tile before

  // S within a part; the left edge counts to the first cell of a row.
  DEVICE void begin(const Images& all, const Cursor& at, T (&own)[ITEMS][V], T* sums) {
    scan_rows(own);
    if (at.column() == 0) begin_rows(all, at, own);
    const bool is_end = ALONE || (!DOWN && at.step + 1 == int(all.steps));
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const T total = own[k][V - 1];
      across[k] = DOWN ? total : np_add(across[k], total);
      if (is_end && lane() == LANES - 1) store_right(all, at, first_row() + k, across[k]);
    }
    add_down(own, sums);
  }

  // S of a tile, of which all before is known, from S within it.
  DEVICE void finish(const Images& all, const Cursor& at, T (&own)[ITEMS][V], int turn) {
    Pack<T> columns = *(const Pack<T>*)((DOWN ? ends[1 - turn] : entries[turn]) + first_column());
    if (DOWN && at.step == 0) columns = above_of(all, at);
    if (!DOWN && at.step == 0) of_rows(all, at, all.left_down, end);
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      add_to_row(own[k], DOWN ? before[first_row() + k] : end[k]);
      add_to_row(own[k], columns);
      if (!DOWN) end[k] = from_lane<false>(own[k][V - 1], last_lane());
    }
    if (!DOWN && all.above != nullptr) {
      const Pack<T> above = above_of(all, at);
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) add_to_row(own[k], above);
    }
    if (DOWN && threadIdx.x / LANES == PARTS - 1) {
#pragma unroll
      for (int v = 0; v < V; ++v) columns.v[v] = own[ITEMS - 1][v];
      *(Pack<T>*)(ends[turn] + first_column()) = columns;
    }
    store(all, at, own);
  }

 private:
  DEVICE void begin_rows(const Images& all, const Cursor& at, T (&own)[ITEMS][V]) {
    of_rows(all, at, all.left, across);
    if (!DOWN || all.left == nullptr) return;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) add_to_row(own[k], across[k]);
  }
};

DEVICE inline void add_up_alone(const Images& all) {
  Cursor at(all), later(all);
  Walk walk;
  T own[ITEMS][V], over = T(0);
  for (int s = 0; s < STAGES; ++s, later.advance(all)) request(s, all, later);
  for (int stage = 0; at.exists(all); at.advance(all), stage = stage + 1 < STAGES ? stage + 1 : 0) {
    await<STAGES - 1>();
    read(stage, all, at, own);
    request(stage, all, later);
    later.advance(all);
    walk.begin(all, at, own, sums[0]);
    __syncthreads();
    const int column = threadIdx.x;
    if (column < W)
      over = scan_parts(sums[0], column, at.step == 0 ? above_of(all, at, column) : over);
    __syncthreads();
    add_to_columns(own, sums[0] + threadIdx.x * V);
    store(all, at, own);
    __syncthreads();
  }
}

// The sums of a tile's lines, for the strips after it.
DEVICE inline void tell(const Ledger& ledger, const Images& all, const Cursor& at, int line, T sum,
                        T* totals) {
  totals[line] = sum;
  publish(ledger.of_strip(all, at.unit, Ledger::place(at, line)), sum, ledger.tag);
}
DEVICE inline void tell_rows(const Ledger& ledger, const Images& all, const Cursor& at,
                             const Walk& walk, T* totals) {
  if (lane() != LANES - 1) return;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    tell(ledger, all, at, first_row() + k, walk.across[k], totals);
}

// What the strips before have told of a tile's lines; `totals` are its own.
DEVICE inline void hear(const Ledger& ledger, const Images& all, const Cursor& at,
                        Question& question, const T* totals, T* entries) {
  const T entry = question.answer(ledger, all);
  const int line = asked_line();
  if (line >= LINES || teller() != 0) return;
  const T sum = np_add(entry, totals[line]);
  entries[line] = entry;
  ledger.announce(all, at, line, sum);
  if (DOWN && at.strip + 1 == int(all.strips)) store_right(all, at, line, sum);
}

// A block: one of its tiles is begun, and the one before it finished, until all are.
struct Block {
  const Images& all;
  const Ledger ledger;
  Cursor at, later, due;
  Walk walk;
  Question question;
  int stage;
  bool is_due;

  DEVICE Block(const Images& all, const Ledger& ledger)
      : all(all), ledger(ledger), at(all), later(all), due(all), stage(0), is_due(false) {
    for (int s = 0; s < STAGES; ++s, later.advance(all)) request(s, all, later);
  }
  // `known` has S within the tile that is due, `own` is given that of the next.
  template <int TURN> DEVICE bool turn(T (&own)[ITEMS][V], T (&known)[ITEMS][V]) {
    const bool is_new = at.exists(all);
    if (is_due) question.ask(ledger, all, due);
    if (is_new) begin<TURN>(own);
    if (is_due) hear(ledger, all, due, question, totals[1 - TURN], entries[TURN]);
    __syncthreads();
    if (is_new && threadIdx.x < W) {
      const T total = scan_parts(sums[TURN], threadIdx.x, T(0));
      if (!DOWN) tell(ledger, all, at, threadIdx.x, total, totals[TURN]);
    }
    if (DOWN && is_due && threadIdx.x / 32 == THREADS / 32 - 1) scan_entries(entries[TURN]);
    __syncthreads();
    if (is_new) add_to_columns(own, sums[TURN] + threadIdx.x * V);
    if (is_due) walk.finish(all, due, known, TURN);
    due = at;
    is_due = is_new;
    if (is_new) at.advance(all);
    return is_new;
  }

 private:
  template <int TURN> DEVICE void begin(T (&own)[ITEMS][V]) {
    await<STAGES - 1>();
    read(stage, all, at, own);
    request(stage, all, later);
    later.advance(all);
    stage = stage + 1 < STAGES ? stage + 1 : 0;
    walk.begin(all, at, own, sums[TURN]);
    if (DOWN) tell_rows(ledger, all, at, walk, totals[TURN]);
  }
};

DEVICE inline void add_up(const Images& all, Unit* descriptors, unsigned epoch) {
  Block block(all, {descriptors, tag_of(epoch)});
  T even[ITEMS][V], odd[ITEMS][V];
  while (block.turn<0>(even, odd) && block.turn<1>(odd, even)) {}
}

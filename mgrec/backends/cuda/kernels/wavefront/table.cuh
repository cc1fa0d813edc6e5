// Summed-area tables: R[i, j] = R[i, j-1] + x[i, j] and S[i, j] = S[i-1, j] + R[i, j].
//
// A block walks a strip of an image tile by tile, down (DOWN) or to the right, and carries the sums
// of its direction. Across it, strips look back: each publishes the sums of a tile's lines (rows
// where strips go down, else columns) as soon as it has read the tile, and adds up those of the
// strips before it one tile later. The last strip of a group publishes the sum up to its own end,
// so that nobody reads more than one group; all is added up in one order whatever the timing.
#pragma once
#include "wavefront/tile.cuh"

constexpr int LINES = DOWN ? H : W, BATCH = UNITS > 1 ? 4 : 8;
static_assert(ALONE || LINES <= THREADS, "a thread has a line of a tile at most");
static_assert(W <= THREADS, "a thread adds up a column at most");

__shared__ __align__(16) T sums[THREADS * V];  // of every part's columns
__shared__ T totals[ALONE || !DOWN ? 1 : LINES];
__shared__ __align__(16) T entries[ALONE ? 1 : LINES];

// What strips tell each other: sums of a line in one strip, and in all strips up to a group's end.
struct Ledger {
  Unit* descriptors;
  unsigned tag;
  DEVICE Unit* of_strip(const Images& all, int unit, long long line) const {
    return descriptors + (unit * (all.steps * LINES) + line) * UNITS;
  }
  DEVICE static int group_of(const Images& all, int strip) { return strip >> all.group_bits; }
  DEVICE Unit* of_group(const Images& all, const Cursor& at, int group, long long line) const {
    const int groups = group_of(all, int(all.strips) - 1) + 1;
    return of_strip(all, int(all.count * all.strips) + at.image * groups + group, line);
  }
  // The sum of a line in all strips before that of a tile.
  DEVICE T look_back(const Images& all, const Cursor& at, long long line) const {
    const int group = group_of(all, at.strip);
    const long long stride = all.steps * LINES * UNITS;
    int rest = at.strip - (group << all.group_bits);
    const Unit* from = of_strip(all, at.unit - rest, line);
    T sum = T(0);
    for (; rest > 0; rest -= BATCH, from += BATCH * stride) {
      T found[BATCH];
      bool complete;
      do {
        complete = true;
#pragma unroll
        for (int b = 0; b < BATCH; ++b)
          if (b < rest) complete &= received(from + b * stride, tag, found[b]);
      } while (!complete);
#pragma unroll
      for (int b = 0; b < BATCH; ++b)
        if (b < rest) sum = np_add(sum, found[b]);
    }
    if (group == 0) return sum;
    T before;
    while (!received(of_group(all, at, group - 1, line), tag, before)) {}
    return np_add(before, sum);
  }
  DEVICE void announce(const Images& all, const Cursor& at, long long line, T sum) const {
    const int group = group_of(all, at.strip), next = at.strip + 1;
    if (group_of(all, next) != group && next < int(all.strips))
      publish(of_group(all, at, group, line), sum, tag);
  }
};

// R within a tile, but for the sums before it.
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
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (lane() > 0) own[k][v] = np_add(before, own[k][v]);
  }
}

DEVICE inline void add_to_row(T (&row)[V], T before) {
#pragma unroll
  for (int v = 0; v < V; ++v) row[v] = np_add(before, row[v]);
}

// Where the last column is, R is the right edge.
DEVICE inline void store_right(const Images& all, const Cursor& at, const T (&own)[ITEMS][V]) {
  const long long last = all.columns - 1 - at.column() - first_column();
  if (all.right == nullptr || last < 0 || last >= V) return;
  const int rows = at.rows(all) - first_row();
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v == last && k < rows)
        all.right[at.image * all.rows + at.row() + first_row() + k] = own[k][v];
}

// S within a part; every part leaves the sums of its columns.
DEVICE inline void add_down(T (&own)[ITEMS][V]) {
  Pack<T> last;
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int k = 1; k < ITEMS; ++k) own[k][v] = np_add(own[k - 1][v], own[k][v]);
    last.v[v] = own[ITEMS - 1][v];
  }
  ((Pack<T>*)sums)[threadIdx.x] = last;
}
// Sums of a column before every part, and its sum with that of all parts.
DEVICE inline T scan_parts(int column, T before) {
#pragma unroll 16
  for (int p = 0; p < PARTS; ++p) {
    const T own = sums[p * W + column];
    sums[p * W + column] = before;
    before = np_add(before, own);
  }
  return before;
}
DEVICE inline void add_to_columns(T (&own)[ITEMS][V], const T* before) {
  const Pack<T> columns = *(const Pack<T>*)before;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
#pragma unroll
    for (int v = 0; v < V; ++v) own[k][v] = np_add(columns.v[v], own[k][v]);
}

// The edge above a tile's column: what the table has over the first row.
DEVICE inline T above_of(const Images& all, const Cursor& at, int column) {
  const long long place = at.column() + column;
  if (all.above == nullptr || place >= all.columns) return T(0);
  return all.above[at.image * all.columns + place];
}
DEVICE inline T left_of(const Images& all, const Cursor& at, int k) {
  if (all.left == nullptr || k >= at.rows(all) - first_row()) return T(0);
  return all.left[at.image * all.rows + at.row() + first_row() + k];
}

// A strip's tiles one after the other; what is walked with is the thread's own.
struct Walk {
  T across[ITEMS];  // to the right: R of the tile before
  T carry;          // down: S of the tile before, of the column that this thread adds up

  // R of a tile, but for strips before; to the right S too.
  DEVICE void begin(const Images& all, const Cursor& at, T (&own)[ITEMS][V]) {
    scan_rows(own);
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const bool is_first = at.column() == 0;
      if (DOWN) {
        if (is_first && all.left != nullptr) add_to_row(own[k], left_of(all, at, k));
        if (!ALONE && lane() == LANES - 1) totals[first_row() + k] = own[k][V - 1];
      } else {
        add_to_row(own[k], is_first ? left_of(all, at, k) : across[k]);
        across[k] = from_lane<false>(own[k][V - 1], threadIdx.x % 32 / LANES * LANES + LANES - 1);
      }
    }
    if (DOWN) return;
    store_right(all, at, own);
    add_down(own);
  }

  // S of a tile of which R is known.
  DEVICE void finish_down(const Images& all, const Cursor& at, T (&own)[ITEMS][V]) {
    store_right(all, at, own);
    add_down(own);
    __syncthreads();
    const int column = threadIdx.x;
    if (column < W) carry = scan_parts(column, at.step == 0 ? above_of(all, at, column) : carry);
    __syncthreads();
    add_to_columns(own, sums + threadIdx.x * V);
    store(all, at, own);
  }
};

DEVICE inline void add_up_alone(const Images& all) {
  Cursor at(all), later(all);
  Walk walk;
  T own[ITEMS][V];
  for (int s = 0; s < STAGES; ++s, later.advance(all)) request(s, all, later);
  for (int stage = 0; at.exists(all); at.advance(all), stage = stage + 1 < STAGES ? stage + 1 : 0) {
    read(stage, all, at, own);
    request(stage, all, later);
    later.advance(all);
    walk.begin(all, at, own);
    walk.finish_down(all, at, own);
    __syncthreads();
  }
}

DEVICE inline void add_up(const Images& all, Unit* descriptors, unsigned epoch) {
  const Ledger ledger = {descriptors, tag_of(epoch)};
  const int line = threadIdx.x;
  Cursor at(all), later(all), behind(all);
  Walk walk;
  T own[ITEMS][V], known[ITEMS][V], total = T(0), total_behind = T(0);
  for (int s = 0; s < STAGES; ++s, later.advance(all)) request(s, all, later);
  int stage = 0;
  for (bool is_first = true; is_first || behind.exists(all); is_first = false) {
    const bool is_more = at.exists(all);
    if (!is_more && is_first) return;
    if (is_more) {
      read(stage, all, at, own);
      request(stage, all, later);
      later.advance(all);
      stage = stage + 1 < STAGES ? stage + 1 : 0;
      walk.begin(all, at, own);
    }
    __syncthreads();
    if (line < LINES) {
      if (is_more) {
        total = DOWN ? totals[line]
                     : scan_parts(line, at.strip == 0 ? above_of(all, at, line) : T(0));
        publish(ledger.of_strip(all, at.unit, (long long)at.step * LINES + line), total, ledger.tag);
      }
      if (!is_first) {
        const long long place = (long long)behind.step * LINES + line;
        const T entry = ledger.look_back(all, behind, place);
        ledger.announce(all, behind, place, np_add(entry, total_behind));
        entries[line] = entry;
      }
      total_behind = total;
    }
    __syncthreads();
    if (!DOWN && is_more) add_to_columns(own, sums + threadIdx.x * V);
    if (!is_first && DOWN) {
#pragma unroll
      for (int k = 0; k < ITEMS; ++k) add_to_row(known[k], entries[first_row() + k]);
      walk.finish_down(all, behind, known);
    } else if (!is_first) {
      add_to_columns(known, entries + first_column());
      store(all, behind, known);
    }
    if (!DOWN) __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) known[k][v] = own[k][v];
    behind = at;
    if (is_more) at.advance(all);
  }
}

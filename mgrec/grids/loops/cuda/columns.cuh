// The columns of a thread, row by row: read to shared memory ahead, computed, and written.
#pragma once
#include "grids/loops/cuda/block.cuh"

DEVICE inline unsigned char* place(int stage, int slot) {
  return shared_bytes + (stage * SLOTS + slot) * ROW_BYTES;
}
// Columns of a strip that are in the grid.
DEVICE inline int inside_of(const Grids& all, const Strip& strip) {
  const long long rest = all.columns - strip.index * WIDTH;
  return rest < WIDTH ? int(rest) : WIDTH;
}
// Calls visit(word) for this thread's words of a row.
template <class Visit> DEVICE inline void for_words(int inside, Visit visit) {
#pragma unroll
  for (int q = 0; q < ITEMS / NUMBERS; ++q) {
    const int word = q * THREADS + threadIdx.x;
    if (word * NUMBERS < inside) visit(word);
  }
}

// What a thread reads of an operand, row by row; `from` is where its next number, or row, is.
template <int O> struct Source {
  static constexpr int KIND = kind_of(O);
  const T* from;
  T own[KIND == CONSTANT ? 1 : ITEMS], next;

  DEVICE void begin(const Grids& all, const Strip& strip) {
    const Operand& operand = all.operands[O];
    const long long first = strip.index * WIDTH, mine = first + threadIdx.x * ITEMS;
    from = operand.at(strip.grid, 0, KIND == CONSTANT ? 0 : first);
    if (KIND == CONSTANT) next = *from;
    if (KIND != ROW) return;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      own[k] = mine + k < all.columns ? from[threadIdx.x * ITEMS + k] : T(0);
  }
  // Ask for a row of an array.
  DEVICE void ask(const Grids& all, int inside, int stage) {
    if (KIND != ARRAY) return;
    for_words(inside, [&](int word) {
      copy_word((Word*)place(stage, slot_of(O)) + word, (const Word*)from + word);
    });
    from += all.operands[O].row;
  }
  DEVICE void advance(const Grids& all, bool is_last, int stage) {
    if (KIND == CONSTANT) {
      own[0] = next;
      from += all.operands[O].row;
      if (!is_last) next = *from;
    }
    if (KIND != ARRAY) return;
    const Pack* mine = (const Pack*)place(stage, slot_of(O)) + threadIdx.x * PACKS;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      const Pack pack = mine[p];
#pragma unroll
      for (int v = 0; v < V; ++v) own[p * V + v] = pack.v[v];
    }
  }
  DEVICE T at(int k) const { return own[KIND == CONSTANT ? 0 : k]; }
};

// The columns of a thread.
struct Columns {
  Source<LOCAL> local;
  Source<B0> b0;
  Source<B1> b1;
  Source<B2> b2;
  T above[ITEMS];
  T* table;
  int inside;

  DEVICE void begin(const Grids& all, const Strip& strip) {
    inside = inside_of(all, strip);
    table = all.table + strip.grid * all.batch + strip.index * WIDTH;
    local.begin(all, strip);
    b0.begin(all, strip);
    b1.begin(all, strip);
    b2.begin(all, strip);
    const long long first = strip.index * WIDTH + threadIdx.x * ITEMS;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
      above[k] = first + k < all.columns ? *all.above.at(strip.grid, 0, first + k) : T(0);
  }
  DEVICE void ask(const Grids& all, long long row, int stage) {
    if (row < all.rows) {
      local.ask(all, inside, stage);
      b0.ask(all, inside, stage);
      b1.ask(all, inside, stage);
      b2.ask(all, inside, stage);
    }
    copies_commit();
  }
  DEVICE void advance(const Grids& all, long long row, int stage) {
    const bool is_last = row == all.rows - 1;
    local.advance(all, is_last, stage);
    b0.advance(all, is_last, stage);
    b1.advance(all, is_last, stage);
    b2.advance(all, is_last, stage);
  }
  DEVICE T corner_at(int k, T corner) const { return k == 0 ? corner : above[k - 1]; }

  // Step 1 of the paper, and all columns as one map.
  DEVICE Map without_horizontal(T corner, T floor, bool& lost) const {
    Map all;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const T diagonal = distribute(corner_at(k, corner), b2.at(k));
      const T sum = accumulate(accumulate(distribute(above[k], b1.at(k)), diagonal), local.at(k));
      const T term = at_least(sum, floor);
      const Map own = {b0.at(k), SAME ? accumulate(b0.at(k), term) : term};
      all = k == 0 ? own : compose(all, own);
    }
    lost |= is_lost(all.weight);
    return all;
  }
  // Step 3: the loop from an entry.
  DEVICE T combine(T left, T corner, T floor, T (&result)[ITEMS]) const {
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const Weights weights = {b0.at(k), b1.at(k), b2.at(k)};
      left = result[k] = cell(left, above[k], corner_at(k, corner), weights, local.at(k), floor);
    }
    return left;
  }
  // Write a row where `local` was, and keep it.
  DEVICE void keep(const T (&result)[ITEMS], int stage) {
    Pack* to = (Pack*)place(stage, 0) + threadIdx.x * PACKS;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      Pack pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.v[v] = above[p * V + v] = result[p * V + v];
      to[p] = pack;
    }
  }
  // Write the next row of the table.
  DEVICE void store(const Grids& all, int stage) {
    for_words(inside, [&](int word) { ((Word*)table)[word] = ((const Word*)place(stage, 0))[word]; });
    table += all.row;
  }
};

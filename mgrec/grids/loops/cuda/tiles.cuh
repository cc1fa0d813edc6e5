// Wavefront loops by tiles: a block goes along a strip of rows, each lane of one warp with ROWS of
// them, while the other warp reads what comes next and writes what is done.
//
// Lane r is r steps behind lane 0, so that no lane needs another's result of the same step: the
// row above comes by a shuffle from the step before. A step is V columns. Eight of them are a
// tile, whose rows come to shared memory by whole lines, each lane's as far behind as it is;
// results take the place of `local` there. The last row goes to the next strip by words in memory.
#pragma once
#include "grids/loops/cuda/tile.cuh"

// What a lane reads of an operand, step by step.
template <int O> struct Source {
  static constexpr int KIND = kind_of(O);
  T constant[KIND == CONSTANT ? ROWS : 1];
  Pack now, coming;
  const T* row;

  DEVICE void begin(const Grids& all, const Strip& strip) {
    const Operand& operand = all.operands[O];
    const long long first = strip.index * HEIGHT + lane() * ROWS;
    row = operand.at(strip.grid, 0, 0);
    if (KIND == CONSTANT) {
#pragma unroll
      for (int k = 0; k < ROWS; ++k)
        constant[k] = first + k < all.rows ? *operand.at(strip.grid, first + k, 0) : T(0);
    }
    if (KIND == ROW) now = load(all, -(long long)(lane()) * V);
  }
  DEVICE Pack load(const Grids& all, long long column) const {
    Pack pack = {};
    if (ALIGNED) {
      if (column >= 0 && column < all.columns) pack = *(const Pack*)(row + column);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (column + v >= 0 && column + v < all.columns) pack.v[v] = row[column + v];
    }
    return pack;
  }
  DEVICE void ask(const Grids& all, long long column) {
    if (KIND == ROW) coming = load(all, column);
  }
  DEVICE void advance() {
    if (KIND == ROW) now = coming;
  }
  DEVICE Pack find(int stage, int step, int k) const {
    if (KIND == ARRAY) return ((const Pack*)place(stage, slot_of(O), k * 32 + lane()))[step];
    Pack pack = now;
    if (KIND == CONSTANT) {
#pragma unroll
      for (int v = 0; v < V; ++v) pack.v[v] = constant[k];
    }
    return pack;
  }
};

// What a lane has done so far.
struct Lane {
  Source<LOCAL> local;
  Source<B0> b0;
  Source<B1> b1;
  Source<B2> b2;
  T left[ROWS], corner, below[V];

  DEVICE void begin(const Grids& all, const Strip& strip) {
    local.begin(all, strip);
    b0.begin(all, strip);
    b1.begin(all, strip);
    b2.begin(all, strip);
    const long long first = strip.index * HEIGHT + lane() * ROWS;
    corner = first < all.rows ? corner_of(all, strip.grid, first) : T(0);
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
      left[k] = first + k < all.rows ? *all.left.at(strip.grid, first + k, 0) : T(0);
#pragma unroll
    for (int v = 0; v < V; ++v) below[v] = T(0);
  }
  DEVICE void ask(const Grids& all, long long column) {
    local.ask(all, column);
    b0.ask(all, column);
    b1.ask(all, column);
    b2.ask(all, column);
  }
  DEVICE void advance() {
    local.advance();
    b0.advance();
    b1.advance();
    b2.advance();
  }

  // V columns of this lane's rows; before the first column nothing is kept.
  DEVICE void step(int stage, int number, const T* above, bool has_begun, T floor) {
    T up[V];
    const Pack first = ((const Pack*)above)[number];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const T handed = from_lane<true>(below[v], 1);
      up[v] = lane() == 0 ? first.v[v] : handed;
    }
    T diagonal = corner;
    corner = has_begun ? up[V - 1] : corner;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      const Pack own = local.find(stage, number, k), w0 = b0.find(stage, number, k);
      const Pack w1 = b1.find(stage, number, k), w2 = b2.find(stage, number, k);
      T before = left[k];
      Pack result;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const T here = up[v];
        before = cell(before, here, diagonal, {w0.v[v], w1.v[v], w2.v[v]}, own.v[v], floor);
        diagonal = here;
        up[v] = result.v[v] = before;
      }
      diagonal = left[k];
      left[k] = has_begun ? before : left[k];
      ((Pack*)place(stage, 0, k * 32 + lane()))[number] = result;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) below[v] = up[v];
  }
};

DEVICE inline long long tiles_of(const Grids& all) {
  return (all.columns + 31 * V + WIDTH - 1) / WIDTH;
}

// The warp that computes: between two meetings a tile. It hands on the last row itself, since the
// other warp may be waiting for the row above.
DEVICE inline void compute(
    const Grids& all, const Strip& strip, const T (&above)[2][WIDTH], Unit* words, unsigned tag) {
  const T floor = floor_of(all);
  const long long tiles = tiles_of(all);
  Lane own;
  own.begin(all, strip);
  int stage = 0;
  for (long long number = 0; number < tiles; ++number) {
    __syncthreads();
#pragma unroll 2
    for (int step = 0; step < STEPS; ++step) {
      const long long column = number * WIDTH + (step - lane()) * V;
      own.ask(all, column + V);
      own.step(stage, step, above[number % 2], column >= 0, floor);
      own.advance();
    }
    __syncwarp();
    if (!strip.is_last(all)) hand_on(all, strip, number, stage, words, tag);
    stage = stage + 1 < STAGES ? stage + 1 : 0;
  }
  __syncthreads();
}

// The warp that reads and writes: while a tile is computed, it writes the one before, asks for one
// in its place, and waits for the next one and the row above it.
DEVICE inline void carry(
    const Grids& all, const Strip& strip, T (&above_tiles)[2][WIDTH], Unit* words, unsigned tag) {
  const long long tiles = tiles_of(all);
  Above above;
  above.words = words;
  above.ask(all, strip, 0);
  for (int s = 0; s < STAGES - 1; ++s) request(all, strip, s, s);
  int stage = STAGES - 1;  // of the tile before, or of none
  for (long long number = -1; number < tiles; ++number) {
    if (number >= 0) {
      __syncthreads();
      if (number > 0) store(all, strip, number - 1, stage);
      __syncwarp();
      request(all, strip, number - 1 + STAGES, stage);
      stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    if (number + 1 == tiles) break;
    copies_wait_but<STAGES - 2>();
    const T mine = above.take(all, strip, number + 1, tag);
    if (lane() < WIDTH) above_tiles[(number + 1) % 2][lane()] = mine;
    above.ask(all, strip, number + 2);
  }
  __syncthreads();
  store(all, strip, tiles - 1, stage);
  __syncwarp();
}

DEVICE inline void run_tiles(const Grids& all, Unit* words, unsigned epoch) {
  __shared__ __align__(16) T above[2][WIDTH];
  const unsigned tag = tag_of(epoch);
  for (long long unit = blockIdx.x; unit < all.count * all.strips; unit += gridDim.x)
    if (threadIdx.x < 32) compute(all, Strip(all, unit), above, words, tag);
    else carry(all, Strip(all, unit), above, words, tag);
}

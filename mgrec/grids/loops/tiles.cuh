// Wavefront loops by tiles: a block processes a strip of rows from left to right. Each lane of one
// warp computes ROWS rows. The other warp reads the next tiles and writes finished ones.
//
// Lane r is r steps behind lane 0, so no lane needs the result of another lane in the same step. A
// shuffle brings the row above from the step before. A step is V columns, and a tile is eight
// steps. The rows of a tile come to shared memory by whole segments, each as far behind as its
// lane. Results overwrite `local` there. The last row goes to the next strip by words in memory.
#pragma once
#include "grids/loops/grids.cuh"

constexpr int STEPS = 8, WIDTH = STEPS * V, HEIGHT = 32 * ROWS;
constexpr int PITCH = WIDTH * int(sizeof(T)) + 16;        // without bank conflicts of lanes
constexpr int PER_ROW = WIDTH / NUMBERS, AT_ONCE = 32 / PER_ROW;  // words; rows of 32 words

// Return the address of a row in a stage: row k of lane r has position k * 32 + r.
DEVICE inline unsigned char* row_address(int stage, int slot, int position) {
  return shared_bytes + ((stage * SLOTS + slot) * HEIGHT + position) * PITCH;
}
static_assert(STAGES > 2, "a tile is written and one is read while another is computed");
DEVICE inline int lane() { return threadIdx.x % 32; }

// A tile of a strip: a parallelogram whose row r * ROWS + k starts r * V columns to the left.
struct Tile {
  long long grid, row, column;
  int rows, before, after;  // rows of the grid from here on, columns to the left and to the right
  DEVICE Tile(const Grids& all, const Strip& strip, long long number)
      : grid(strip.grid), row(strip.index * HEIGHT), column(number * WIDTH),
        rows(least(all.rows - row, HEIGHT)), before(least(column, WIDTH * 32)),
        after(least(all.columns - column, WIDTH)) {}
  DEVICE static int least(long long number, int most) { return number < most ? int(number) : most; }
  DEVICE bool is_inside() const { return rows == HEIGHT && before >= 31 * V && after == WIDTH; }
};

// Call visit(position, word, address) for this lane's words of a tile. `first` is the address of
// the tile's first row and column in lane 0.
template <bool INSIDE, class N, class Visit> DEVICE inline void for_words_in(
    const Tile& tile, N* first, long long stride, Visit visit) {
  const int lane_row = lane() / PER_ROW, word = lane() % PER_ROW;
  const long long down = ROWS * stride - V;
  first += lane_row * down + word * NUMBERS;
#pragma unroll
  for (int k = 0; k < ROWS; ++k, first += stride) {
    N* address = first;
#pragma unroll 8
    for (int r = 0; r < 32; r += AT_ONCE, address += AT_ONCE * down) {
      const int column = word * NUMBERS - (r + lane_row) * V;
      const bool exists = (r + lane_row) * ROWS + k < tile.rows && column >= -tile.before &&
                          column < tile.after;
      if (INSIDE || exists) visit(k * 32 + r + lane_row, word, address);
    }
  }
}
template <class N, class Visit> DEVICE inline void for_words(
    const Tile& tile, N* first, long long stride, Visit visit) {
  if (tile.is_inside()) for_words_in<true>(tile, first, stride, visit);
  else for_words_in<false>(tile, first, stride, visit);
}

template <int O> DEVICE inline void copy_tile(const Grids& all, const Tile& tile, int stage) {
  if (kind_of(O) != ARRAY) return;
  const Operand& operand = all.operands[O];
  for_words(tile, operand.at(tile.grid, tile.row, tile.column), operand.row,
            [&](int position, int word, const T* address) {
              copy_word((Word*)row_address(stage, slot_of(O), position) + word,
                        (const Word*)address);
            });
}
DEVICE inline void request(const Grids& all, const Strip& strip, long long number, int stage) {
  const Tile tile(all, strip, number);
  if (tile.after > -31 * V) {
    copy_tile<LOCAL>(all, tile, stage);
    copy_tile<B0>(all, tile, stage);
    copy_tile<B1>(all, tile, stage);
    copy_tile<B2>(all, tile, stage);
  }
  copies_commit();
}
DEVICE inline void store(const Grids& all, const Strip& strip, long long number, int stage) {
  const Tile tile(all, strip, number);
  T* first = all.table + tile.grid * all.batch + tile.row * all.row + tile.column;
  for_words(tile, first, all.row, [&](int position, int word, T* address) {
    *(Word*)address = ((const Word*)row_address(stage, 0, position))[word];
  });
}

// The row above a strip, one number a lane: a border, or the last row of the strip above.
struct Above {
  RemoteNumber remote;
  T border;
  const Unit* words;
  DEVICE bool has(const Grids& all, long long column) const {
    return lane() < WIDTH && column < all.columns;
  }
  DEVICE const Unit* address_of(const Grids& all, const Strip& strip, long long column) const {
    return words + ((strip.unit - 1) * all.columns + column) * UNITS;
  }
  DEVICE void prefetch(const Grids& all, const Strip& strip, long long number) {
    const long long column = number * WIDTH + lane();
    if (!has(all, column)) return;
    if (strip.index == 0) border = *all.above.at(strip.grid, 0, column);
    else remote.prefetch(address_of(all, strip, column));
  }
  DEVICE T take(const Grids& all, const Strip& strip, long long number, unsigned tag) const {
    const long long column = number * WIDTH + lane();
    if (!has(all, column)) return T(0);
    return strip.index == 0 ? border : remote.take(address_of(all, strip, column), tag);
  }
};
DEVICE inline void export_row(
    const Grids& all, const Strip& strip, long long number, int stage, Unit* words, unsigned tag) {
  const int last = HEIGHT - 1;
  const long long column = number * WIDTH - 31 * V + lane();
  if (lane() >= WIDTH || column < 0 || column >= all.columns) return;
  const T value = ((const T*)row_address(stage, 0, last))[lane()];
  publish(words + (strip.unit * all.columns + column) * UNITS, value, tag);
}

// The numbers of an operand that a lane reads step by step.
template <int O> struct Source {
  static constexpr int KIND = kind_of(O);
  T constant[KIND == CONSTANT ? ROWS : 1];
  Vector current, next;
  const T* row;

  DEVICE void init(const Grids& all, const Strip& strip) {
    const Operand& operand = all.operands[O];
    const long long first = strip.index * HEIGHT + lane() * ROWS;
    row = operand.at(strip.grid, 0, 0);
    if (KIND == CONSTANT) {
#pragma unroll
      for (int k = 0; k < ROWS; ++k)
        constant[k] = first + k < all.rows ? *operand.at(strip.grid, first + k, 0) : T(0);
    }
    if (KIND == ROW) current = load(all, -(long long)(lane()) * V);
  }
  DEVICE Vector load(const Grids& all, long long column) const {
    Vector vector = {};
    if (ALIGNED) {
      if (column >= 0 && column < all.columns) vector = *(const Vector*)(row + column);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (column + v >= 0 && column + v < all.columns) vector.v[v] = row[column + v];
    }
    return vector;
  }
  DEVICE void prefetch(const Grids& all, long long column) {
    if (KIND == ROW) next = load(all, column);
  }
  DEVICE void advance() {
    if (KIND == ROW) current = next;
  }
  DEVICE Vector values(int stage, int step, int k) const {
    if (KIND == ARRAY)
      return ((const Vector*)row_address(stage, slot_of(O), k * 32 + lane()))[step];
    Vector vector = current;
    if (KIND == CONSTANT) {
#pragma unroll
      for (int v = 0; v < V; ++v) vector.v[v] = constant[k];
    }
    return vector;
  }
};

// The state of a lane.
struct Lane {
  Source<LOCAL> local;
  Source<B0> b0;
  Source<B1> b1;
  Source<B2> b2;
  T left[ROWS], corner, below[V];

  DEVICE void init(const Grids& all, const Strip& strip) {
    local.init(all, strip);
    b0.init(all, strip);
    b1.init(all, strip);
    b2.init(all, strip);
    const long long first = strip.index * HEIGHT + lane() * ROWS;
    corner = first < all.rows ? corner_of(all, strip.grid, first) : T(0);
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
      left[k] = first + k < all.rows ? *all.left.at(strip.grid, first + k, 0) : T(0);
#pragma unroll
    for (int v = 0; v < V; ++v) below[v] = T(0);
  }
  DEVICE void prefetch(const Grids& all, long long column) {
    local.prefetch(all, column);
    b0.prefetch(all, column);
    b1.prefetch(all, column);
    b2.prefetch(all, column);
  }
  DEVICE void advance() {
    local.advance();
    b0.advance();
    b1.advance();
    b2.advance();
  }

  // Compute V columns of this lane's rows. Before the first column the state does not change.
  DEVICE void step(int stage, int number, const T* above, bool is_started, T floor) {
    T up[V];
    const Vector first = ((const Vector*)above)[number];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const T from_above = from_below(below[v], 1);
      up[v] = lane() == 0 ? first.v[v] : from_above;
    }
    T diagonal = corner;
    corner = is_started ? up[V - 1] : corner;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
      const Vector terms = local.values(stage, number, k), w0 = b0.values(stage, number, k);
      const Vector w1 = b1.values(stage, number, k), w2 = b2.values(stage, number, k);
      T before = left[k];
      Vector result;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const T here = up[v];
        before = cell(before, here, diagonal, {w0.v[v], w1.v[v], w2.v[v]}, terms.v[v], floor);
        diagonal = here;
        up[v] = result.v[v] = before;
      }
      diagonal = left[k];
      left[k] = is_started ? before : left[k];
      ((Vector*)row_address(stage, 0, k * 32 + lane()))[number] = result;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) below[v] = up[v];
  }
};

DEVICE inline long long tiles_of(const Grids& all) {
  return (all.columns + 31 * V + WIDTH - 1) / WIDTH;
}

// The computing warp: one tile between two barriers. It exports the last row itself, because the
// other warp may be waiting for the row above.
DEVICE inline void compute(
    const Grids& all, const Strip& strip, const T (&above)[2][WIDTH], Unit* words, unsigned tag) {
  const T floor = floor_of(all);
  const long long tiles = tiles_of(all);
  Lane state;
  state.init(all, strip);
  int stage = 0;
  for (long long number = 0; number < tiles; ++number) {
    __syncthreads();
#pragma unroll 2
    for (int step = 0; step < STEPS; ++step) {
      const long long column = number * WIDTH + (step - lane()) * V;
      state.prefetch(all, column + V);
      state.step(stage, step, above[number % 2], column >= 0, floor);
      state.advance();
    }
    __syncwarp();
    if (!strip.is_last(all)) export_row(all, strip, number, stage, words, tag);
    stage = stage + 1 < STAGES ? stage + 1 : 0;
  }
  __syncthreads();
}

// The copying warp. While a tile is computed, it writes the tile before, requests another one in
// its stage, and waits for the next tile and the row above it.
DEVICE inline void carry(
    const Grids& all, const Strip& strip, T (&above_tiles)[2][WIDTH], Unit* words, unsigned tag) {
  const long long tiles = tiles_of(all);
  Above above;
  above.words = words;
  above.prefetch(all, strip, 0);
  for (int s = 0; s < STAGES - 1; ++s) request(all, strip, s, s);
  int stage = STAGES - 1;  // that of the tile before, if there is one
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
    const T value = above.take(all, strip, number + 1, tag);
    if (lane() < WIDTH) above_tiles[(number + 1) % 2][lane()] = value;
    above.prefetch(all, strip, number + 2);
  }
  __syncthreads();
  store(all, strip, tiles - 1, stage);
  __syncwarp();
}

DEVICE inline void solve_tiles(const Grids& all, Unit* words, unsigned epoch) {
  __shared__ __align__(16) T above[2][WIDTH];
  const unsigned tag = tag_of(epoch);
  for (long long unit = blockIdx.x; unit < all.count * all.strips; unit += gridDim.x)
    if (threadIdx.x < 32) compute(all, Strip(all, unit), above, words, tag);
    else carry(all, Strip(all, unit), above, words, tag);
}

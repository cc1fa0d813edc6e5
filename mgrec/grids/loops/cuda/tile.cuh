// Tiles of a strip in shared memory, and what the strip gets from the one above.
#pragma once
#include "grids/loops/cuda/grids.cuh"

constexpr int STEPS = 8, WIDTH = STEPS * V, HEIGHT = 32 * ROWS;
constexpr int PITCH = WIDTH * int(sizeof(T)) + 16;        // lanes then read all banks at once
constexpr int PER_ROW = WIDTH / NUMBERS, AT_ONCE = 32 / PER_ROW;  // words; rows of 32 of them

// Row k of lane r lies at k * 32 + r.
DEVICE inline unsigned char* place(int stage, int slot, int position) {
  return shared_bytes + ((stage * SLOTS + slot) * HEIGHT + position) * PITCH;
}
static_assert(STAGES > 2, "a tile is written and one is read while another is computed");
DEVICE inline int lane() { return threadIdx.x % 32; }

// A tile of a strip: a parallelogram, whose row r * ROWS + k begins r * V columns to the left.
struct Tile {
  long long grid, row, column;
  int rows, before, after;  // of the grid: rows from here on, columns to the left and to the right
  DEVICE Tile(const Grids& all, const Strip& strip, long long number)
      : grid(strip.grid), row(strip.index * HEIGHT), column(number * WIDTH),
        rows(least(all.rows - row, HEIGHT)), before(least(column, WIDTH * 32)),
        after(least(all.columns - column, WIDTH)) {}
  DEVICE static int least(long long number, int most) { return number < most ? int(number) : most; }
  DEVICE bool is_inside() const { return rows == HEIGHT && before >= 31 * V && after == WIDTH; }
};

// Calls visit(position, word, address) for this lane's words of a tile; `first` is the address of
// its first row and column, but for the lanes' distance.
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
              copy_word((Word*)place(stage, slot_of(O), position) + word, (const Word*)address);
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
    *(Word*)address = ((const Word*)place(stage, 0, position))[word];
  });
}

// The row above a strip: a border, or what the strip above hands on; one number a lane.
struct Above {
  Handed handed;
  T border;
  const Unit* words;
  DEVICE bool has(const Grids& all, long long column) const {
    return lane() < WIDTH && column < all.columns;
  }
  DEVICE const Unit* place_of(const Grids& all, const Strip& strip, long long column) const {
    return words + ((strip.unit - 1) * all.columns + column) * UNITS;
  }
  DEVICE void ask(const Grids& all, const Strip& strip, long long number) {
    const long long column = number * WIDTH + lane();
    if (!has(all, column)) return;
    if (strip.index == 0) border = *all.above.at(strip.grid, 0, column);
    else handed.ask(place_of(all, strip, column));
  }
  DEVICE T take(const Grids& all, const Strip& strip, long long number, unsigned tag) const {
    const long long column = number * WIDTH + lane();
    if (!has(all, column)) return T(0);
    return strip.index == 0 ? border : handed.take(place_of(all, strip, column), tag);
  }
};
DEVICE inline void hand_on(
    const Grids& all, const Strip& strip, long long number, int stage, Unit* words, unsigned tag) {
  const int last = HEIGHT - 1;
  const long long column = number * WIDTH - 31 * V + lane();
  if (lane() >= WIDTH || column < 0 || column >= all.columns) return;
  const T value = ((const T*)place(stage, 0, last))[lane()];
  publish(words + (strip.unit * all.columns + column) * UNITS, value, tag);
}

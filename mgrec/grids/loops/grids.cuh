// The arguments of a wavefront loop over grids, and its cell.
#pragma once
#include "grids/words.cuh"
#include "engines/cuda/memory/copies.cuh"

// An operand is one number a row, the same row everywhere, or a whole array.
constexpr int CONSTANT = 0, ROW = 1, ARRAY = 2;
constexpr int LOCAL = 0, B0 = 1, B1 = 2, B2 = 3, OPERANDS = 4;
constexpr int V = 16 / int(sizeof(T));                // numbers in a word of 16 bytes
constexpr int WORD = ALIGNED ? 16 : int(sizeof(T));  // bytes that are copied at once
constexpr int NUMBERS = WORD / int(sizeof(T));

extern __shared__ __align__(16) unsigned char shared_bytes[];

struct alignas(16) Vector { T v[V]; };
typedef typename word_of<WORD>::type Word;

// Strides in numbers; 0 along axes where an operand is broadcast.
struct Operand {
  const T* data;
  long long batch, row, column;
  DEVICE const T* at(long long grid, long long i, long long j) const {
    return data + grid * batch + i * row + j * column;
  }
};
struct Grids {
  Operand operands[OPERANDS], above, left, corner;
  T* table;
  long long batch, row;                          // of the table
  long long count, rows, columns, strips;         // strips of one grid
  Unit floor;
};

// A strip of a grid. A block takes every gridDim.x-th strip, so no strip waits for a later one.
struct Strip {
  long long unit, grid, index;
  DEVICE Strip(const Grids& all, long long number)
      : unit(number), grid(number / all.strips), index(number - grid * all.strips) {}
  DEVICE bool is_last(const Grids& all) const { return index == all.strips - 1; }
};

// Array operands have slots in shared memory. Results use the slot of `local`, the first.
DEVICE constexpr int slot_of(int operand) {
  int slot = 0;
  for (int o = 1; o <= operand; ++o) slot += kind_of(o) == ARRAY;
  return slot;
}
constexpr int SLOTS = slot_of(OPERANDS - 1) + 1;

DEVICE inline T floor_of(const Grids& all) {
  Packed<T> number;
  number.word[0] = unsigned(all.floor);
  if (UNITS > 1) number.word[UNITS - 1] = unsigned(all.floor >> 32);
  return number.item;
}
DEVICE inline T at_least(T value, T floor) { return FLOORED ? np_maximum(value, floor) : value; }

// Return A[-1, -1] of a grid's row: the border to the left of the row before, or the corner.
DEVICE inline T corner_of(const Grids& all, long long grid, long long row) {
  return row == 0 ? *all.corner.at(grid, 0, 0) : *all.left.at(grid, row - 1, 0);
}

// Compute a cell from its three neighbours and weights and its own term, in the order of the loop.
// If rows are the columns of the loop (TURNED), the term from above comes first.
struct Weights { T b0, b1, b2; };
DEVICE inline T cell(T left, T up, T corner, const Weights& b, T local, T floor) {
  const T from_left = distribute(left, b.b0), from_up = distribute(up, b.b1);
  T a = TURNED ? accumulate(from_up, from_left) : accumulate(from_left, from_up);
  a = accumulate(a, distribute(corner, b.b2));
  return at_least(accumulate(a, local), floor);
}

// A number from another strip: loaded early with `prefetch`, used with `take`.
struct RemoteNumber {
  Unit raw[UNITS];
  DEVICE void prefetch(const Unit* address) { load_words(raw, address); }
  DEVICE T take(const Unit* address, unsigned tag) const {
    T value = value_of(raw);
    for (bool complete = has_tag(raw, tag); !complete;) complete = received(address, tag, value);
    return value;
  }
};

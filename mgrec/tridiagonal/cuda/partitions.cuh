// Partitions in shared memory, one a thread: their reduction to interface rows, and the
// substitution of known cuts.
//
// A partition has ROWS rows of a system; the last one of a system may be shorter. If systems are
// contiguous, neighbouring threads have neighbouring partitions. Their rows are contiguous in
// memory, and all threads of the block copy them, PACK numbers of 16 bytes at once if they are
// ALIGNED. If systems are columns (COLUMNS), neighbouring threads have neighbouring columns, and
// each thread copies its own.
//
// A partition is eliminated from both ends to the middle: two chains of steps that do not wait for
// each other, in one thread. The lower half is read backwards, so that its `before` is the unknown
// after the partition.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/elimination.cuh"

constexpr int STRIDE = ROWS + PACK;

// What a thread copies at once, if systems are contiguous.
template <bool IS_ALIGNED> struct Choice { typedef Word type; };
template <> struct Choice<false> { typedef T type; };
typedef Choice<ALIGNED>::type Moved;

// The partition of a lane.
struct Partition {
  long long outer, part, column, first;
  int length;
  bool is_there;

  DEVICE Partition(const System& system, long long lane) {
    is_there = lane < system.lanes();
    if (!is_there) lane = system.lanes() - 1;
    if (COLUMNS) {
      column = lane % system.inner;
      lane /= system.inner;
    } else {
      column = 0;
    }
    outer = system.outer == 1 ? 0 : lane / system.parts;
    part = lane - outer * system.parts;
    first = part * ROWS;
    const long long remaining = system.steps - first;
    length = remaining < ROWS ? int(remaining) : ROWS;
  }
  // Whether a flag of `System` is set for this system; `single` is the one that has it alone.
  DEVICE bool is_of(long long flag, long long single) const {
    return flag == 1 || (flag == 2 && outer == single);
  }
  DEVICE long long system_number(const System& system) const {
    return outer * system.inner + column;
  }
  DEVICE long long start(const Operand& operand) const {
    return outer * operand.outer + first * operand.step + column * operand.inner;
  }
};

struct Tile {
  T* data;  // this thread's row 0 of operand 0

  // Shared memory: 4 x THREADS x STRIDE numbers.
  static constexpr int APART = THREADS * STRIDE;
  DEVICE static int index(int thread, int row) {
    return COLUMNS ? row * THREADS + thread : thread * STRIDE + row;
  }
  DEVICE T& at(int k, int row) { return data[k * APART + (COLUMNS ? row * THREADS : row)]; }
  DEVICE Word load(int k, int group) {
    Word word;
    if constexpr (COLUMNS) {
#pragma unroll
      for (int r = 0; r < PACK; ++r) word.v[r] = at(k, group * PACK + r);
    } else {
      word = *(const Word*)&at(k, group * PACK);
    }
    return word;
  }
  DEVICE void store(int k, int group, const Word& word) {
    if constexpr (COLUMNS) {
#pragma unroll
      for (int r = 0; r < PACK; ++r) at(k, group * PACK + r) = word.v[r];
    } else {
      *(Word*)&at(k, group * PACK) = word;
    }
  }
};

// Outer index, first row and number of rows of each thread's partition; 0 rows without one.
__shared__ long long tile_outer[THREADS], tile_first[THREADS];
__shared__ int tile_lengths[THREADS];

// Rows of the block if all its partitions belong to one system, and are contiguous; else 0.
DEVICE inline int contiguous_rows(const System& system) {
  const long long outer = tile_outer[0], first = tile_first[0];
  if (outer != tile_outer[THREADS - 1]) return 0;
  const long long remaining = system.steps - first;
  return remaining < THREADS * ROWS ? int(remaining) : THREADS * ROWS;
}

// Move all words of the block's rows. `move` gets the positions of a row in the block and in shared
// memory. Full rounds need neither tests nor divisions.
template <class Move> DEVICE inline void move_rows(int count, Move move) {
  constexpr int NUMBERS = sizeof(Moved) / sizeof(T), WORDS = ROWS / NUMBERS;
  constexpr int PARTS = THREADS > WORDS ? THREADS / WORDS : 1;   // at once
  constexpr int ROUNDS = WORDS > THREADS ? WORDS / THREADS : 1;  // of one part
  const int thread = threadIdx.x, row = thread * NUMBERS;
  const int shared_index = thread / WORDS * STRIDE + thread % WORDS * NUMBERS;
  int part = 0;
#pragma unroll 4
  for (; (part + PARTS) * ROWS <= count; part += PARTS) {
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
      constexpr int STEP = THREADS * NUMBERS;
      move.word(part * ROWS + row + round * STEP, part * STRIDE + shared_index + round * STEP);
    }
  }
  for (int tail_row = part * ROWS + thread; tail_row < count; tail_row += THREADS)
    move.number(tail_row, tail_row / ROWS * STRIDE + tail_row % ROWS);
}

// Move all words of the block's rows partition by partition.
template <class Move> DEVICE inline void move_parts(Move move) {
  constexpr int NUMBERS = sizeof(Moved) / sizeof(T), WORDS = ROWS / NUMBERS;
  for (int e = threadIdx.x; e < THREADS * WORDS; e += THREADS) {
    const int thread = e / WORDS, row = e % WORDS * NUMBERS, length = tile_lengths[thread];
    const long long start = move.start(thread) + row;
    const int shared_index = thread * STRIDE + row;
    if (row + NUMBERS <= length)
      move.word(start, shared_index);
    else
      for (int r = 0; r < NUMBERS && row + r < length; ++r)
        move.number(start + r, shared_index + r);
  }
}

// Load rows from memory to shared memory, or store them the other way.
template <bool IS_LOAD> struct Copy {
  T* shared;
  T* memory;
  long long outer;
  DEVICE void word(long long row, int shared_index) const {
    if (IS_LOAD)
      copy_word((Moved*)(shared + shared_index), (const Moved*)(memory + row));
    else
      *(Moved*)(memory + row) = *(const Moved*)(shared + shared_index);
  }
  DEVICE void number(long long row, int shared_index) const {
    if (IS_LOAD)
      shared[shared_index] = memory[row];
    else
      memory[row] = shared[shared_index];
  }
  DEVICE long long start(int thread) const { return tile_outer[thread] * outer + tile_first[thread]; }
  DEVICE void rows_of(const System& system) const {
    const int count = contiguous_rows(system);
    if (count == 0) return move_parts(*this);
    move_rows(count, Copy{shared, memory + start(0), outer});
  }
};

DEVICE inline void load_operand(T* to, const Operand& operand, const System& system,
                                const Partition& partition) {
  const T* from = operand.data + partition.start(operand);
  if (operand.step == 0) {
    const T value = *from;
#pragma unroll 8
    for (int row = 0; row < ROWS; ++row) to[Tile::index(threadIdx.x, row)] = value;
  } else if (COLUMNS) {
#pragma unroll 8
    for (int row = 0; row < ROWS; ++row) {
      const int near = row < partition.length ? row : partition.length - 1;
      copy_word(to + Tile::index(threadIdx.x, row), from + near * operand.step);
    }
  } else {
    Copy<true>{to, const_cast<T*>(operand.data), operand.outer}.rows_of(system);
  }
}

// Load the rows of all partitions of a block.
DEVICE inline Tile load_tile(const System& system, const Partition& partition) {
  T* shared = (T*)shared_bytes;
  if (!COLUMNS) {
    tile_outer[threadIdx.x] = partition.outer;
    tile_first[threadIdx.x] = partition.first;
    tile_lengths[threadIdx.x] = partition.is_there ? partition.length : 0;
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    load_operand(shared + k * Tile::APART, system.operands[k], system, partition);
  copies_commit();
  copies_wait();
  __syncthreads();
  Tile tile = {shared + Tile::index(threadIdx.x, 0)};
  if (partition.part == 0 && partition.is_of(system.has_first, 0)) tile.at(0, 0) = T(0);
  if (partition.part == system.parts - 1 && partition.is_of(system.has_last, system.outer - 1))
    tile.at(2, partition.length - 1) = T(0);
  return tile;
}

// Store operand 3 of all partitions as results.
DEVICE inline void store_tile(const System& system, const Partition& partition) {
  T* shared = (T*)shared_bytes + 3 * Tile::APART;
  if constexpr (COLUMNS) {
    if (!partition.is_there) return;
    T* to = system.result + (partition.outer * system.steps + partition.first) * system.inner +
            partition.column;
    for (int row = 0; row < partition.length; ++row)
      to[row * system.inner] = shared[Tile::index(threadIdx.x, row)];
  } else {
    __syncthreads();
    Copy<false>{shared, system.result, system.steps}.rows_of(system);
  }
}

constexpr int GROUPS = ROWS / PACK, MIDDLE = ROWS / 2;

// dl, d, du and b of a group of rows.
struct Group {
  Word v[4];
  DEVICE void load(Tile& tile, int group) {
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = tile.load(k, group);
  }
  DEVICE void store(Tile& tile, int group) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) tile.store(k, group, v[k]);
  }
  template <bool IS_LOWER> DEVICE Row<4> row(int r, T& nonfinite) const {
    return scaled_row(v[IS_LOWER ? 2 : 0].v[r], v[1].v[r], v[IS_LOWER ? 0 : 2].v[r], v[3].v[r],
                      nonfinite);
  }
};

struct Halves {
  PendingRows upper = PendingRows::copies(), lower = PendingRows::copies();

  // Eliminate all rows. `visit` gets for every row whether it is in the lower half, its group, its
  // number, the pivot and the inverse. Groups are stored if KEEPS.
  template <bool STORES_GROUPS, class Visit>
  DEVICE void eliminate(Tile& tile, int length, T& nonfinite, Visit visit) {
    if (length == ROWS)
      eliminate_rows<STORES_GROUPS, true>(tile, length, nonfinite, visit);
    else
      eliminate_rows<STORES_GROUPS, false>(tile, length, nonfinite, visit);
  }

 private:
  template <bool STORES_GROUPS, bool IS_FULL, class Visit>
  DEVICE void eliminate_rows(Tile& tile, int length, T& nonfinite, Visit visit) {
    for (int group = 0; group < GROUPS / 2; ++group) {
      Group one, other;
      one.load(tile, group);
      other.load(tile, GROUPS - 1 - group);
#pragma unroll
      for (int r = 0; r < PACK; ++r) {
        const int back = PACK - 1 - r, row = group * PACK + r;
        Inverse inverse(T(1)), inverse_back(T(1));
        if (IS_FULL || row < length)
          visit(false, one, r, advance(upper, one.row<false>(r, nonfinite), inverse), inverse);
        if (IS_FULL || ROWS - 1 - row < length)
          visit(true, other, back, advance(lower, other.row<true>(back, nonfinite), inverse_back),
                inverse_back);
        if (upper.is_large() || lower.is_large()) {
          upper.part();
          lower.part();
        }
      }
      if (STORES_GROUPS) {
        one.store(tile, group);
        other.store(tile, GROUPS - 1 - group);
      }
    }
  }
};

// Join two halves of a partition that were eliminated from its ends: eliminate both unknowns in the
// middle, x[m-1] and x[m]. The pending rows of the upper half become those of the partition.
DEVICE inline void join_halves(Halves& halves, Pivots& seen, Row<7>& pivot, Row<6>& second) {
  const Row<5>&u = halves.lower.upper, &l = halves.lower.lower;
  const T cell[10] = {u[1], u[0], u[3], u[2], u[4], l[1], l[0], l[3], l[2], l[4]};
  // Rows with nan or inf were seen when they were read. Here a pivot of 0 leads to nan, too.
  const T nonfinite = seen.nonfinite;
  advance_part(halves.upper, cell, seen, pivot, second);
  seen.nonfinite = nonfinite;
}

// The unknown before a part, its first unknown, its last, and the one after it.
struct Around { T before, first, last, after; };
// The unknowns on both sides of a cut.
struct Cut { T above, below; };

// The unknowns between two parts, by their pivots, from the unknowns around both parts.
DEVICE inline Cut unknowns_between(const Row<7>& pivot, const Row<6>& second, const Around& known) {
  const T around[4] = {known.last, known.after, known.before, known.first};
  const Inverse inverse(pivot[0]), inverse_second(second[0]);
  T below = inverse_second.ratio(second[5]);
#pragma unroll
  for (int k = 0; k < 4; ++k) below = minus_product(below, inverse_second.ratio(second[k + 1]), around[k]);
  T above = minus_product(inverse.ratio(pivot[6]), inverse.ratio(pivot[1]), below);
#pragma unroll
  for (int k = 0; k < 4; ++k) above = minus_product(above, inverse.ratio(pivot[k + 2]), around[k]);
  return {above, below};
}

// Write the cell of a partition, if it is there.
DEVICE inline void reduce_partition(const System& system, const Partition& partition, T* cell) {
  Tile tile = load_tile(system, partition);
  Halves halves;
  Pivots seen;
  halves.eliminate<false>(
      tile, partition.length, seen.nonfinite,
      [&](bool, const Group&, int, const Row<6>& pivot, const Inverse&) {
        seen.take(magnitude(pivot[0]));
      });
  Row<7> pivot;
  Row<6> second;
  join_halves(halves, seen, pivot, second);
  if (partition.is_there) write_cell(cell, halves.upper, seen);
}

// Replace each row by the pivot that was eliminated with it: inverse, two coefficients, and the
// right-hand side with the known unknowns. Return the two unknowns in the middle.
DEVICE inline Cut factor_partition(Tile& tile, int length, const Around& ends) {
  Halves halves;
  T nonfinite = T(0);
  halves.eliminate<true>(
      tile, length, nonfinite,
      [&](bool is_lower, Group& group, int r, const Row<6>& pivot, const Inverse& inverse) {
        const T before = is_lower ? ends.after : ends.before;
        const T first = is_lower ? ends.last : ends.first;
        group.v[0].v[r] = inverse.value();
        group.v[1].v[r] = pivot[1];
        group.v[2].v[r] = pivot[2];
        group.v[3].v[r] = minus_product(minus_product(pivot[5], pivot[3], before), pivot[4], first);
      });
  if (length <= MIDDLE) return {ends.last, ends.after};
  Pivots seen;
  Row<7> pivot;
  Row<6> second;
  join_halves(halves, seen, pivot, second);
  Cut middle = unknowns_between(pivot, second, ends);
  if (length == MIDDLE + 1) middle.below = ends.last;
  return middle;
}

// The next unknown beyond `near`, from `near`, `far` on its other side, and the pivot at a row.
DEVICE inline T next_unknown(const Group& group, int r, T near, T far) {
  const T rhs = minus_product(group.v[3].v[r], group.v[2].v[r], far);
  return minus_product(rhs, group.v[1].v[r], near) * group.v[0].v[r];
}

// Replace operand 3 by x. The pivot at row i gives x[i-1], in the lower half x[i+1].
DEVICE inline void substitute_partition(Tile& tile, int length, const Around& ends,
                                        const Cut& middle) {
  T near = middle.above, far = middle.below, back_near = middle.below, back_far = middle.above;
  for (int step = 0; step < GROUPS / 2; ++step) {
    const int up = GROUPS / 2 - 1 - step, down = GROUPS / 2 + step;
    Group one, other;
    one.load(tile, up);
    other.load(tile, down);
#pragma unroll
    for (int r = 0; r < PACK; ++r) {
      const int back = PACK - 1 - r, row = up * PACK + back, back_row = down * PACK + r;
      const T x = next_unknown(one, back, near, far);
      const T back_x = next_unknown(other, r, back_near, back_far);
      one.v[3].v[back] = near;
      other.v[3].v[r] = back_near;
      if (row < length) {
        far = near;
        near = row == 1 ? ends.first : x;
      }
      back_far = back_near;
      back_near = back_row == length - 2 ? ends.last : back_x;
    }
    tile.store(3, up, one.v[3]);
    tile.store(3, down, other.v[3]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) substitute_kernel(const System system) {
  const Partition partition(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, partition);
  const T* cut =
      system.cuts + 2 * (partition.system_number(system) * (system.parts + 1) + partition.part);
  const Around ends = {cut[0], cut[1], cut[2], cut[3]};
  const Cut middle = factor_partition(tile, partition.length, ends);
  substitute_partition(tile, partition.length, ends, middle);
  store_tile(system, partition);
}

extern "C" __global__ void __launch_bounds__(THREADS) reduce_kernel(const System system) {
  const Partition partition(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  const long long cell = partition.system_number(system) * system.parts + partition.part;
  reduce_partition(system, partition, system.cells + 10 * cell);
}
// Reduce systems of THREADS partitions at most, one a block, to one cell each.
extern "C" __global__ void __launch_bounds__(THREADS) reduce_short_kernel(const System system) {
  __shared__ T cells[10 * THREADS];
  const long long outer = blockIdx.x / system.inner, column = blockIdx.x % system.inner;
  const bool is_there = threadIdx.x < system.parts;
  const long long lane = (outer * system.parts + threadIdx.x) * system.inner + column;
  const Partition partition(system, is_there ? lane : system.lanes());
  reduce_partition(system, partition, cells + 10 * threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0)
    merge_cells(cells, int(system.parts), system.cells + 10 * (long long)blockIdx.x);
}

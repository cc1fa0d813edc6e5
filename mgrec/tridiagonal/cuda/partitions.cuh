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
#include "tridiagonal/cuda/interface.cuh"

constexpr int PACK = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
constexpr int STRIDE = ROWS + PACK;

struct alignas(16) Pack { T v[PACK]; };
// The word that a thread copies at once, if systems are contiguous.
template <bool IS_ALIGNED> struct Moved { typedef Pack type; };
template <> struct Moved<false> { typedef T type; };
typedef Moved<ALIGNED>::type Word;

struct System {
  Operand operands[4];  // dl, d, du and b
  T* result;
  T* cells;
  T* cuts;
  long long outer, steps, inner, parts;
  long long has_first, has_last;
  DEVICE long long lanes() const { return outer * inner * parts; }
};

// The partition of a lane.
struct Place {
  long long outer, part, column, first;
  int length;
  bool is_there;

  DEVICE Place(const System& system, long long lane) {
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
    const long long rest = system.steps - first;
    length = rest < ROWS ? int(rest) : ROWS;
  }
  DEVICE long long line(const System& system) const { return outer * system.inner + column; }
  DEVICE long long start(const Operand& operand) const {
    return outer * operand.outer + first * operand.step + column * operand.inner;
  }
};

struct Tile {
  T* own;  // this thread's row 0 of operand 0

  // Shared memory: 4 x THREADS x STRIDE numbers.
  static constexpr int APART = THREADS * STRIDE;
  DEVICE static int index(int thread, int row) {
    return COLUMNS ? row * THREADS + thread : thread * STRIDE + row;
  }
  DEVICE T& at(int k, int row) { return own[k * APART + (COLUMNS ? row * THREADS : row)]; }
  DEVICE Pack load(int k, int group) {
    Pack pack;
    if constexpr (COLUMNS) {
#pragma unroll
      for (int r = 0; r < PACK; ++r) pack.v[r] = at(k, group * PACK + r);
    } else {
      pack = *(const Pack*)&at(k, group * PACK);
    }
    return pack;
  }
  DEVICE void store(int k, int group, const Pack& pack) {
    if constexpr (COLUMNS) {
#pragma unroll
      for (int r = 0; r < PACK; ++r) at(k, group * PACK + r) = pack.v[r];
    } else {
      *(Pack*)&at(k, group * PACK) = pack;
    }
  }
};

extern __shared__ __align__(16) unsigned char shared_bytes[];
// Outer index, first row and number of rows of each thread's partition; 0 rows without one.
__shared__ long long tile_outer[THREADS], tile_first[THREADS];
__shared__ int tile_lengths[THREADS];

// Rows of the block if all its partitions belong to one system, and are one run in memory; else 0.
DEVICE inline int run_of(const System& system) {
  const long long outer = tile_outer[0], first = tile_first[0];
  if (outer != tile_outer[THREADS - 1]) return 0;
  const long long rest = system.steps - first;
  return rest < THREADS * ROWS ? int(rest) : THREADS * ROWS;
}

// Move all words of the block's rows. `move` gets the positions of a row in the run and in shared
// memory. Full turns need neither tests nor divisions.
template <class Word, class Move> DEVICE inline void each_of_run(int run, Move move) {
  constexpr int NUMBERS = sizeof(Word) / sizeof(T), WORDS = ROWS / NUMBERS;
  constexpr int PARTS = THREADS > WORDS ? THREADS / WORDS : 1;  // side by side
  constexpr int TURNS = WORDS > THREADS ? WORDS / THREADS : 1;  // of one part
  const int own = threadIdx.x, row = own * NUMBERS;
  const int place = own / WORDS * STRIDE + own % WORDS * NUMBERS;
  int part = 0;
#pragma unroll 4
  for (; (part + PARTS) * ROWS <= run; part += PARTS) {
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      constexpr int STEP = THREADS * NUMBERS;
      move.word(part * ROWS + row + turn * STEP, part * STRIDE + place + turn * STEP);
    }
  }
  for (int rest = part * ROWS + own; rest < run; rest += THREADS)
    move.number(rest, rest / ROWS * STRIDE + rest % ROWS);
}

// Move all words of the block's rows partition by partition.
template <class Word, class Move> DEVICE inline void each_of_parts(Move move) {
  constexpr int NUMBERS = sizeof(Word) / sizeof(T), WORDS = ROWS / NUMBERS;
  for (int e = threadIdx.x; e < THREADS * WORDS; e += THREADS) {
    const int thread = e / WORDS, row = e % WORDS * NUMBERS, length = tile_lengths[thread];
    const long long start = move.start(thread) + row;
    const int place = thread * STRIDE + row;
    if (row + NUMBERS <= length)
      move.word(start, place);
    else
      for (int r = 0; r < NUMBERS && row + r < length; ++r) move.number(start + r, place + r);
  }
}

template <class Word> struct Loads {
  T* to;
  const T* from;
  long long outer;
  DEVICE void word(long long row, int place) const {
    copy_word((Word*)(to + place), (const Word*)(from + row));
  }
  DEVICE void number(long long row, int place) const { to[place] = from[row]; }
  DEVICE void shift(long long rows) { from += rows; }
  DEVICE long long start(int thread) const { return tile_outer[thread] * outer + tile_first[thread]; }
};
template <class Word> struct Stores {
  const T* from;
  T* to;
  long long outer;
  DEVICE void word(long long row, int place) const { *(Word*)(to + row) = *(const Word*)(from + place); }
  DEVICE void number(long long row, int place) const { to[row] = from[place]; }
  DEVICE void shift(long long rows) { to += rows; }
  DEVICE long long start(int thread) const { return tile_outer[thread] * outer + tile_first[thread]; }
};

template <class Word, class Move> DEVICE inline void each_word(const System& system, Move move) {
  const int run = run_of(system);
  if (run == 0) return each_of_parts<Word>(move);
  auto shifted = move;
  shifted.shift(move.start(0));
  each_of_run<Word>(run, shifted);
}

DEVICE inline void load_operand(T* to, const Operand& operand, const System& system,
                                const Place& place) {
  const T* own = operand.data + place.start(operand);
  if (operand.step == 0) {
    const T value = *own;
#pragma unroll 8
    for (int row = 0; row < ROWS; ++row) to[Tile::index(threadIdx.x, row)] = value;
  } else if (COLUMNS) {
#pragma unroll 8
    for (int row = 0; row < ROWS; ++row) {
      const int near = row < place.length ? row : place.length - 1;
      copy_word(to + Tile::index(threadIdx.x, row), own + near * operand.step);
    }
  } else {
    each_word<Word>(system, Loads<Word>{to, operand.data, operand.outer});
  }
}

// Load the rows of all partitions of a block.
DEVICE inline Tile load_tile(const System& system, const Place& place) {
  T* shared = (T*)shared_bytes;
  if (!COLUMNS) {
    tile_outer[threadIdx.x] = place.outer;
    tile_first[threadIdx.x] = place.first;
    tile_lengths[threadIdx.x] = place.is_there ? place.length : 0;
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    load_operand(shared + k * Tile::APART, system.operands[k], system, place);
  copies_commit();
  copies_wait();
  __syncthreads();
  Tile tile = {shared + Tile::index(threadIdx.x, 0)};
  if (system.has_first && place.part == 0) tile.at(0, 0) = T(0);
  if (system.has_last && place.part == system.parts - 1) tile.at(2, place.length - 1) = T(0);
  return tile;
}

// Store operand 3 of all partitions as results.
DEVICE inline void store_tile(const System& system, const Place& place) {
  const T* shared = (const T*)shared_bytes + 3 * Tile::APART;
  if constexpr (COLUMNS) {
    if (!place.is_there) return;
    T* own = system.result + (place.outer * system.steps + place.first) * system.inner + place.column;
    for (int row = 0; row < place.length; ++row)
      own[row * system.inner] = shared[Tile::index(threadIdx.x, row)];
  } else {
    __syncthreads();
    each_word<Word>(system, Stores<Word>{shared, system.result, system.steps});
  }
}

constexpr int GROUPS = ROWS / PACK, MIDDLE = ROWS / 2;

// dl, d, du and b of a group of rows.
struct Group {
  Pack v[4];
  DEVICE void load(Tile& tile, int group) {
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = tile.load(k, group);
  }
  DEVICE void store(Tile& tile, int group) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) tile.store(k, group, v[k]);
  }
  template <bool IS_LOWER> DEVICE Row<T, 4> row(int r, T& odd) const {
    return scaled_row(v[IS_LOWER ? 2 : 0].v[r], v[1].v[r], v[IS_LOWER ? 0 : 2].v[r], v[3].v[r], odd);
  }
};

struct Halves {
  Held<T> upper = Held<T>::copies(), lower = Held<T>::copies();

  // Eliminate all rows. `keep` gets for every row whether it is in the lower half, its group, its
  // number, the pivot and the inverse. Groups are stored if KEEPS.
  template <bool KEEPS, class Keep>
  DEVICE void eliminate(Tile& tile, int length, T& odd, Keep keep) {
    if (length == ROWS)
      eliminate_rows<KEEPS, true>(tile, length, odd, keep);
    else
      eliminate_rows<KEEPS, false>(tile, length, odd, keep);
  }

 private:
  template <bool KEEPS, bool IS_FULL, class Keep>
  DEVICE void eliminate_rows(Tile& tile, int length, T& odd, Keep keep) {
    for (int group = 0; group < GROUPS / 2; ++group) {
      Group one, other;
      one.load(tile, group);
      other.load(tile, GROUPS - 1 - group);
#pragma unroll
      for (int r = 0; r < PACK; ++r) {
        const int back = PACK - 1 - r, row = group * PACK + r;
        Inverse<T> inverse(T(1)), inverse_back(T(1));
        if (IS_FULL || row < length)
          keep(false, one, r, advance(upper, one.row<false>(r, odd), inverse), inverse);
        if (IS_FULL || ROWS - 1 - row < length)
          keep(true, other, back, advance(lower, other.row<true>(back, odd), inverse_back),
               inverse_back);
        if (upper.is_large() || lower.is_large()) {
          upper.part();
          lower.part();
        }
      }
      if (KEEPS) {
        one.store(tile, group);
        other.store(tile, GROUPS - 1 - group);
      }
    }
  }
};

DEVICE inline void reduce_partitions(const System& system) {
  const Place place(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, place);
  Halves halves;
  Pivots<T> seen;
  halves.eliminate<false>(
      tile, place.length, seen.odd,
      [&](bool, const Group&, int, const Row<T, 6>& pivot, const Inverse<T>&) {
        seen.take(magnitude(pivot[0]));
      });
  Row<T, 7> pivot;
  Row<T, 6> second;
  join_halves(halves.upper, halves.lower, seen, pivot, second);
  if (place.is_there) {
    const long long cell = place.line(system) * system.parts + place.part;
    write_cell(system.cells + 10 * cell, halves.upper, seen);
  }
}

// Replace each row by the pivot that was eliminated with it: inverse, two coefficients, and the
// right-hand side with the known unknowns. Return the two unknowns in the middle.
DEVICE inline Cut<T> factor_partition(Tile& tile, int length, const Around<T>& ends) {
  Halves halves;
  T odd = T(0);
  halves.eliminate<true>(
      tile, length, odd,
      [&](bool is_lower, Group& group, int r, const Row<T, 6>& pivot, const Inverse<T>& inverse) {
        const T before = is_lower ? ends.after : ends.before;
        const T first = is_lower ? ends.last : ends.first;
        group.v[0].v[r] = inverse.value();
        group.v[1].v[r] = pivot[1];
        group.v[2].v[r] = pivot[2];
        group.v[3].v[r] = minus_product(minus_product(pivot[5], pivot[3], before), pivot[4], first);
      });
  if (length <= MIDDLE) return {ends.last, ends.after};
  Pivots<T> seen;
  Row<T, 7> pivot;
  Row<T, 6> second;
  join_halves(halves.upper, halves.lower, seen, pivot, second);
  Cut<T> middle = Link<T>(pivot, second).cut(ends);
  if (length == MIDDLE + 1) middle.below = ends.last;
  return middle;
}

// The next unknown beyond `near`, from `near`, `far` on its other side, and the pivot at a row.
DEVICE inline T next_unknown(const Group& group, int r, T near, T far) {
  const T rest = minus_product(group.v[3].v[r], group.v[2].v[r], far);
  return minus_product(rest, group.v[1].v[r], near) * group.v[0].v[r];
}

// Replace operand 3 by x. The pivot at row i gives x[i-1], in the lower half x[i+1].
DEVICE inline void substitute_partition(Tile& tile, int length, const Around<T>& ends,
                                        const Cut<T>& middle) {
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

DEVICE inline void substitute_partitions(const System& system) {
  const Place place(system, blockIdx.x * (long long)THREADS + threadIdx.x);
  Tile tile = load_tile(system, place);
  const T* cut = system.cuts + 2 * (place.line(system) * (system.parts + 1) + place.part);
  const Around<T> ends = {cut[0], cut[1], cut[2], cut[3]};
  const Cut<T> middle = factor_partition(tile, place.length, ends);
  substitute_partition(tile, place.length, ends, middle);
  store_tile(system, place);
}

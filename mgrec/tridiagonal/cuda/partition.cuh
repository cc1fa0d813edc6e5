// Partitions in shared memory: a thread has the rows of one.
//
// ROWS rows of a system are a partition, the last one of a system may be shorter. Where systems
// are contiguous, neighbouring threads have neighbouring partitions: their rows lie one after the
// other in memory and are copied by all threads of the block, PACK numbers of 16 bytes at once
// where they are ALIGNED. Where systems are columns (COLUMNS), neighbouring threads have
// neighbouring columns, and each copies its own.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/elimination.cuh"
#include "tridiagonal/cuda/operand.cuh"

constexpr int PACK = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
constexpr int STRIDE = ROWS + PACK;

struct alignas(16) Pack { T v[PACK]; };
// What is copied at once, where systems are contiguous.
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
// Of each thread's partition: its system, its first row, and its rows; 0 where there is none.
__shared__ long long tile_outer[THREADS], tile_first[THREADS];
__shared__ int tile_lengths[THREADS];

// Rows of the block where all of its partitions are of one system, and so lie in one run; else 0.
DEVICE inline int run_of(const System& system) {
  const long long outer = tile_outer[0], first = tile_first[0];
  if (outer != tile_outer[THREADS - 1]) return 0;
  const long long rest = system.steps - first;
  return rest < THREADS * ROWS ? int(rest) : THREADS * ROWS;
}

// All words of the block's rows, `Word` by `Word`: `move` of a row's place in the run and of its
// place in shared memory. Full turns need neither tests nor divisions.
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

// The same partition by partition.
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

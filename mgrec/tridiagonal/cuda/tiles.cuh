// Windows of systems in shared memory: a thread has the rows of one partition.
//
// A window is a run of partitions of ROWS rows, THREADS / WIDTH of them for each of WIDTH columns.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/elimination.cuh"
#include "tridiagonal/cuda/operand.cuh"

constexpr int LANES = THREADS / WIDTH, PACK = sizeof(T) < 16 ? 16 / sizeof(T) : 1;
constexpr int TILE = THREADS * ROWS + PACK;

// Division of numbers below 2^31 by one that the host knows.
struct Divisor {
  unsigned long long number, magic, shift;
  DEVICE int quotient(int x) const {
    const unsigned high = unsigned(magic * (unsigned long long)unsigned(x) >> 32);
    return int((high + unsigned(x)) >> shift);
  }
};

struct Windows {
  Operand operands[4];  // dl, d, du and b
  T* result;
  const T *before, *after;  // the unknowns beside each line, if known; else 0
  long long steps, inner;
  long long groups;       // lines, or runs of WIDTH of them
  Divisor column_groups;  // of one outer index
  Divisor parts;          // of a line
  long long count, interior, halo;  // windows, and the partitions of one
  long long by_words;  // columns: WIDTH of them at once, at multiples of 16 bytes
  const long long* is_settled;  // by windows of a shorter halo, if given and not 0
  long long* is_solved;         // made 0 where a window fails
  DEVICE long long used() const { return interior + 2 * halo; }
  DEVICE long long all_parts() const { return groups * (long long)parts.number; }
};

// The partition of a thread.
struct Spot {
  long long outer, column, first;
  int length;  // 0 where there is none
  bool is_last, is_there;

  // Of a group of whole words, which all of its threads load.
  DEVICE int group_length(const Windows& all) const {
    const long long rest = all.steps - first;
    return !is_there ? 0 : rest < ROWS ? int(rest) : ROWS;
  }

  DEVICE static Spot of_thread(const Windows& all, long long first) {
    const int lane = threadIdx.x / WIDTH;
    return Spot(all, lane < all.used() ? first + lane : -1, threadIdx.x % WIDTH);
  }
  DEVICE Spot(const Windows& all, long long part_of_all, int lane_column) {
    is_there = part_of_all >= 0 && part_of_all < all.all_parts();
    const int place = is_there ? int(part_of_all) : 0, parts = int(all.parts.number);
    const int group = all.parts.quotient(place), part = place - group * parts;
    outer = WIDTH == 1 ? group : all.column_groups.quotient(group);
    const long long groups = all.column_groups.number;
    column = WIDTH == 1 ? 0 : (group - outer * groups) * WIDTH + lane_column;
    first = part * (long long)ROWS;
    const long long rest = all.steps - first;
    length = !is_there || column >= all.inner ? 0 : rest < ROWS ? int(rest) : ROWS;
    is_last = part == parts - 1;
  }
  // Among all rows of contiguous lines.
  DEVICE long long row(const Windows& all) const { return outer * all.steps + first; }
};

// The partitions of a window, and its rows where lines are contiguous.
struct Window {
  long long first, row, end;

  DEVICE Window(const Windows& all, long long number) {
    first = number * all.interior - all.halo;
    row = end = 0;
    if (WIDTH > 1) return;
    const long long parts = all.all_parts();
    row = Spot(all, first < 0 ? 0 : first, 0).row(all);
    const long long last = first + all.used() < parts ? first + all.used() - 1 : parts - 1;
    const Spot spot(all, last, 0);
    end = spot.row(all) + spot.length;
  }
};

DEVICE inline bool is_run(const Windows& all, const Operand& operand) {
  return WIDTH == 1 && operand.outer == all.steps && operand.step == 1;
}
// By how many numbers a run begins after a multiple of 16 bytes.
DEVICE inline int shift_of(const Windows& all, const Operand& operand, const Window& window) {
  if (PACK == 1 || !is_run(all, operand)) return 0;
  return int((unsigned long long)(operand.data + window.row) / sizeof(T) % PACK);
}

struct alignas(16) Word { T v[PACK]; };

DEVICE inline void load_run(T* to, const T* from, long long size, int shift) {
  // Numbers until the first word, words, and what is left.
  const int ahead = shift == 0 ? 0 : PACK - shift < size ? PACK - shift : int(size);
  const int words = int(size - ahead) / PACK, rest = int(size - ahead) - words * PACK;
  to += shift;
  if (int(threadIdx.x) < ahead) copy_word(to + threadIdx.x, from + threadIdx.x);
  if (int(threadIdx.x) < rest) {
    const int k = ahead + words * PACK + threadIdx.x;
    copy_word(to + k, from + k);
  }
  for (int k = threadIdx.x; k < words; k += THREADS)
    copy_word((Word*)(to + ahead) + k, (const Word*)(from + ahead) + k);
}

// Where the rows of a thread are in a tile.
struct Rows {
  int start;
  DEVICE Rows(const Windows& all, const Window& window, const Spot& spot)
      : start(WIDTH > 1 ? int(threadIdx.x) / WIDTH * ROWS * WIDTH + int(threadIdx.x) % WIDTH
              : spot.length > 0 ? int(spot.row(all) - window.row) : 0) {}
  DEVICE int operator()(int row) const { return start + row * WIDTH; }
};

// Rows of a partition's WIDTH columns, by words.
DEVICE inline void load_columns(T* to, const T* from, long long step, int length) {
  constexpr int WORDS = WIDTH >= PACK ? WIDTH / PACK : 1;
  const int lane = threadIdx.x % WIDTH;
#pragma unroll
  for (int k = 0; k < (ROWS * WORDS + WIDTH - 1) / WIDTH; ++k) {
    const int word = lane + k * WIDTH, row = word / WORDS, column = word % WORDS * PACK;
    if (row < length)
      copy_word((Word*)(to + row * WIDTH + column), (const Word*)(from + row * step + column));
  }
}

DEVICE inline void load_window(T* tile, const Windows& all, const Window& window,
                               const Spot& spot) {
  const Rows rows(all, window, spot);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Operand& operand = all.operands[k];
    T* to = tile + k * TILE;
    const T* from = operand.data + spot.outer * operand.outer + spot.first * operand.step +
                    spot.column * operand.inner;
    const int lane = threadIdx.x % WIDTH;
    if (is_run(all, operand)) {
      load_run(to, operand.data + window.row, window.end - window.row,
               shift_of(all, operand, window));
    } else if (WIDTH > 1 && all.by_words && operand.inner == 1 && operand.step != 0) {
      load_columns(to + (rows.start - lane), from - lane, operand.step, spot.group_length(all));
    } else {
#pragma unroll
      for (int row = 0; row < ROWS; ++row)
        if (row < spot.length) copy_word(to + rows(row), from + row * operand.step);
    }
  }
  copies_commit();
}

extern __shared__ __align__(16) unsigned char shared_bytes[];

DEVICE inline bool begins_line(const Spot& spot) { return spot.length > 0 && spot.first == 0; }
DEVICE inline bool ends_line(const Spot& spot) { return spot.length > 0 && spot.is_last; }
// The known unknown before or after the line of its first or last partition; else 0.
DEVICE inline T known_before(const Windows& all, const Spot& spot) {
  if (all.before == nullptr || !begins_line(spot)) return T(0);
  return all.before[spot.outer * all.inner + spot.column];
}
DEVICE inline T known_after(const Windows& all, const Spot& spot) {
  if (all.after == nullptr || !ends_line(spot)) return T(0);
  return all.after[spot.outer * all.inner + spot.column];
}

// A row of a partition. The first and the last row of a line keep the coefficient of an unknown
// outside the line if that unknown is known: the bounds then measure how the solution depends on
// it, as on any separator. Rows that the last partition lacks hand the unknown after the line on
// to the separator, which is equal to it.
struct TileRow {
  T dl, d, du, b;
  template <bool IS_FULL>
  DEVICE static TileRow load(const T* tile, const int* place, int row, const Windows& all,
                             const Spot& spot) {
    const T* own = tile + row * WIDTH;
    TileRow full = {own[place[0]], own[place[1]], own[place[2]], own[place[3]]};
    if (IS_FULL) return full;
    const bool is_there = row < spot.length;
    const bool has_before = row > 0 || spot.first > 0 || all.before != nullptr;
    const bool has_after = row < spot.length - 1 || !spot.is_last || all.after != nullptr;
    if (is_there) return {has_before ? full.dl : T(0), full.d, has_after ? full.du : T(0), full.b};
    if (row == ROWS - 1) return {T(0), T(1), T(0), known_after(all, spot)};
    return {T(0), T(1), T(all.after != nullptr && ends_line(spot) ? -1 : 0), T(0)};
  }
};

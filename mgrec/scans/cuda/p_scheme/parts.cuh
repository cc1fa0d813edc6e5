// Rows divided into parts, one for each thread, and the positions of the steps of a part.
//
// In natural order a part's steps follow each other. In rearranged order step j of part p is element
// (j + 1, p) of an array of length + 1 rows, so that neighbouring threads access neighbouring
// addresses; row 0 repeats the last element, in time, of the part before: N + P elements in all.
#pragma once

struct Parts {
  long long outers, steps, inners;  // of the chunk
  long long length, per_row;        // steps of a part, the last one's fewer; parts of a row
  long long stride;                 // elements of a rearranged row; 0 in natural order
  DEVICE long long count() const { return outers * per_row * inners; }
};

struct Part {
  long long number, outer, inner;
  long long first, steps;   // its first step in memory order, how many it has
  long long base;           // of its first element in natural order
};

// Parts are numbered in memory order, the inner axis fastest.
DEVICE inline Part part_of(long long number, const Parts& parts) {
  Part part = {number, 0, 0, 0, 0, 0};
  long long piece = number;
  if (parts.inners > 1) piece = number / parts.inners, part.inner = number - piece * parts.inners;
  if (parts.outers > 1) part.outer = piece / parts.per_row, piece -= part.outer * parts.per_row;
  part.first = piece * parts.length;
  const long long left = parts.steps - part.first;
  part.steps = left < parts.length ? left : parts.length;
  part.base = (part.outer * parts.steps + part.first) * parts.inners + part.inner;
  return part;
}

DEVICE inline long long first_thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
DEVICE inline long long thread_count() { return gridDim.x * (long long)blockDim.x; }

// Transposition between natural and rearranged order, through tiles of 32 parts × 32 steps in
// shared memory: both sides are read and written along rows of 32 neighbouring elements. Contiguous
// rows only (inners == 1). A block of 256 threads for each tile.
constexpr int SIDE = 32, MOVED = 8;  // of a tile; rows that 256 threads move at once

struct Corner { long long part, step; };

// Tiles of neighbouring parts follow each other.
DEVICE inline Corner corner_of(const Parts& parts) {
  const long long groups = (parts.count() + SIDE - 1) / SIDE, down = blockIdx.x / groups;
  return {(blockIdx.x - down * groups) * SIDE, down * SIDE};
}

// The column whose row 0 repeats the element at `step` of a part, or -1.
DEVICE inline long long duplicate_of(const Part& part, long long step, const Parts& parts,
                                     bool reverse) {
  if (reverse) return step == 0 && part.first > 0 ? part.number - 1 : -1;
  const bool last = step == part.steps - 1 && part.first + part.steps < parts.steps;
  return last ? part.number + 1 : -1;
}

template <class Word>
DEVICE void rearrange(const Word* natural, Word* rearranged, const Parts& parts, bool reverse) {
  __shared__ Word tile[SIDE][SIDE + 1];
  const Corner corner = corner_of(parts);
  const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
  for (int k = 0; k < SIDE; k += MOVED) {
    const long long number = corner.part + y + k;
    if (number >= parts.count()) continue;
    const Part part = part_of(number, parts);
    if (corner.step + x < part.steps) tile[y + k][x] = natural[part.base + corner.step + x];
  }
  __syncthreads();
  if (corner.part + x >= parts.count()) return;
  const Part part = part_of(corner.part + x, parts);
#pragma unroll
  for (int k = 0; k < SIDE; k += MOVED) {
    const long long step = corner.step + y + k;
    if (step >= part.steps) continue;
    rearranged[(step + 1) * parts.stride + part.number] = tile[x][y + k];
    const long long duplicate = duplicate_of(part, step, parts, reverse);
    if (duplicate >= 0) rearranged[duplicate] = tile[x][y + k];
  }
}

template <class Word>
DEVICE void restore(const Word* rearranged, Word* natural, const Parts& parts) {
  __shared__ Word tile[SIDE][SIDE + 1];
  const Corner corner = corner_of(parts);
  const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  if (corner.part + x < parts.count()) {
#pragma unroll
    for (int k = 0; k < SIDE; k += MOVED) {
      const long long step = corner.step + y + k;
      if (step < parts.length)
        tile[x][y + k] = rearranged[(step + 1) * parts.stride + corner.part + x];
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SIDE; k += MOVED) {
    const long long number = corner.part + y + k;
    if (number >= parts.count()) continue;
    const Part part = part_of(number, parts);
    if (corner.step + x < part.steps) natural[part.base + corner.step + x] = tile[y + k][x];
  }
}

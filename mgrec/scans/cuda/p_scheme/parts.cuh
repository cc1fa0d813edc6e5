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

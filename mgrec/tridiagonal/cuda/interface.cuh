// The reduced system: the interface rows of the parts of a system, partitions or runs of them.
//
// tridiagonal/cpu/partitions.py has the same steps. A cut is the pair of unknowns (last[k-1],
// first[k]). A line is one system; a line of n parts has n + 1 cuts.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/elimination.cuh"

// A run of GROUP parts, one a thread, with its cells in shared memory.
struct Run {
  static constexpr int CELLS = 10 * GROUP, STRIDE = CELLS + 1;  // odd: no two threads share a bank
  long long line, first, cells;  // first part within the line, and among all parts
  int count;
  bool is_there, is_last;
  T* own;

  DEVICE Run(T* shared, long long parts, long long lines) {
    const long long runs = (parts + GROUP - 1) / GROUP;
    long long lane = blockIdx.x * (long long)MERGERS + threadIdx.x;
    is_there = lane < runs * lines;
    if (!is_there) lane = 0;
    line = lane / runs;
    first = (lane - line * runs) * GROUP;
    const long long rest = parts - first;
    count = rest < GROUP ? int(rest) : GROUP;
    is_last = rest <= GROUP;
    cells = line * parts + first;
    own = shared + threadIdx.x * STRIDE;
  }
  DEVICE T* cell(int k) const { return own + 10 * k; }
};

// Load the cells of the runs of a warp's threads, one run after the other.
DEVICE inline void load_cells(T* shared, const T* cells, const Run& run) {
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  for (int k = 0; k < 32; ++k) {
    const int size = 10 * __shfl_sync(~0u, run.is_there ? run.count : 0, k);
    const T* from = cells + 10 * __shfl_sync(~0u, run.cells, k);
    for (int e = lane; e < size; e += 32)
      copy_word(shared + (base + k) * Run::STRIDE + e, from + e);
  }
  copies_commit();
  copies_wait();
  __syncwarp();
}

// Reduce each run of parts to one cell.
extern "C" __global__ void merge_kernel(const T* cells, T* merged, long long parts, long long lines) {
  const Run run((T*)shared_bytes, parts, lines);
  load_cells((T*)shared_bytes, cells, run);
  if (!run.is_there) return;
  Held held = Held::copies();
  Pivots seen;
  Row<7> pivot;
  Row<6> second;
  for (int k = 0; k < run.count; ++k) advance_part(held, run.cell(k), seen, pivot, second);
  write_cell(merged + 10 * (blockIdx.x * (long long)MERGERS + threadIdx.x), held, seen);
}

// Replace the rows of parts by pivots; move known unknowns to their right-hand sides.
DEVICE inline void factor_parts(T* cells, int count, T before, T first, Held& held, Pivots& seen) {
  Row<7> pivot;
  Row<6> second;
  for (int k = 0; k < count; ++k) {
    T* own = cells + 10 * k;
    advance_part(held, own, seen, pivot, second);
    own[0] = Inverse(pivot[0]).value();
#pragma unroll
    for (int j = 1; j < 4; ++j) own[j] = pivot[j];
    own[4] = minus_product(minus_product(pivot[6], pivot[4], before), pivot[5], first);
    own[5] = Inverse(second[0]).value();
#pragma unroll
    for (int j = 1; j < 3; ++j) own[5 + j] = second[j];
    own[9] = minus_product(minus_product(second[5], second[3], before), second[4], first);
  }
}

// Write the cut before every part, from the last to the first, to the first numbers of its cell.
DEVICE inline void substitute_parts(T* cells, int count, T last, T after, T odd) {
  for (int k = count - 1; k >= 0; --k) {
    T* own = cells + 10 * k;
    T rest = minus_product(minus_product(own[9], own[6], last), own[7], after);
    const T first = rest * own[5];
    rest = minus_product(own[4], own[1], first);
    rest = minus_product(minus_product(rest, own[2], last), own[3], after);
    last = rest * own[0];
    after = first;
    own[0] = last + odd;
    own[1] = after + odd;
  }
}

// Store the cuts before the parts of the runs of a warp's threads, and the cut after a line.
DEVICE inline void store_cuts(const T* shared, T* cuts, const Run& run, T last, T after) {
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  __syncwarp();
  for (int k = 0; k < 32; ++k) {
    const int size = 2 * __shfl_sync(~0u, run.is_there ? run.count : 0, k);
    // A line of n parts has n + 1 cuts.
    T* to = cuts + 2 * __shfl_sync(~0u, run.cells + run.line, k);
    const T* own = shared + (base + k) * Run::STRIDE;
    for (int e = lane; e < size; e += 32) to[e] = own[e / 2 * 10 + e % 2];
  }
  if (run.is_there && run.is_last) {
    T* end = cuts + 2 * (run.cells + run.line + run.count);
    end[0] = last;
    end[1] = after;
  }
}

// Write the cuts inside runs of parts, from the known cuts at their ends.
extern "C" __global__ void open_kernel(const T* cells, T* cuts, const T* known, long long parts,
                                       long long lines) {
  const Run run((T*)shared_bytes, parts, lines);
  load_cells((T*)shared_bytes, cells, run);
  const long long lane = blockIdx.x * (long long)MERGERS + threadIdx.x;
  const T* given = known + 2 * (run.is_there ? lane + run.line : 0);
  const T before = given[0], begin = given[1], last = given[2], after = given[3];
  Held held = Held::copies();
  Pivots seen;
  seen.odd = odd_part((before + begin) + (last + after));
  if (run.is_there) {
    factor_parts(run.own, run.count, before, begin, held, seen);
    substitute_parts(run.own, run.count, last, after, seen.odd);
    // The known values, without the rounding errors of back substitution.
    run.own[0] = before + seen.odd;
    run.own[1] = begin + seen.odd;
  }
  store_cuts((const T*)shared_bytes, cuts, run, last + seen.odd, after + seen.odd);
}

// Write all cuts of whole lines of GROUP parts at most, a thread a line. `status` becomes the
// numbers of the first singular line, and of the first that contains nan or inf.
extern "C" __global__ void solve_kernel(const T* cells, T* cuts, long long parts, long long lines,
                                        unsigned long long* status) {
  const Run run((T*)shared_bytes, parts, lines);
  load_cells((T*)shared_bytes, cells, run);
  Pivots seen;
  T last = T(0);
  if (run.is_there) {
    // The coefficients of the unknowns before and after a whole line are ignored.
    T* end = run.cell(run.count - 1);
    run.own[0] = run.own[5] = end[3] = end[8] = T(0);
    Held held = Held::copies();
    held.lower = {{T(0), T(0), T(0), T(0), T(0)}};
    factor_parts(run.own, run.count, T(0), T(0), held, seen);
    order(held.upper, held.lower);
    seen.take(magnitude(held.upper[0]));
    last = Inverse(held.upper[0]).ratio(held.upper[4]);
    substitute_parts(run.own, run.count, last, T(0), seen.odd);
    // The product is nan in both parts if one part is nan.
    const bool is_odd = !(magnitude(seen.odd * seen.odd) == 0);
    if (is_odd) atomicMin(status + 1, (unsigned long long)run.line);
    if (!(seen.least > 0) && !is_odd) atomicMin(status, (unsigned long long)run.line);
  }
  store_cuts((const T*)shared_bytes, cuts, run, last + seen.odd, seen.odd);
}

// The reduced system: the interface rows of the parts of a system, partitions or groups of them.
//
// tridiagonal/cpu/partitions.py has the same steps. A cut is the pair of unknowns (last[k-1],
// first[k]). A system of n parts has n + 1 cuts.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/elimination.cuh"

// GROUP adjacent parts of a thread, with their cells in shared memory.
struct PartGroup {
  static constexpr int CELLS = 10 * GROUP, STRIDE = CELLS + 1;  // odd: no two threads share a bank
  long long system, first, cells;  // first part within the system, and among all parts
  int count;
  bool is_there, is_last;
  T* shared_cells;

  DEVICE PartGroup(T* shared, long long parts, long long systems) {
    const long long groups = (parts + GROUP - 1) / GROUP;
    long long lane = blockIdx.x * (long long)MERGERS + threadIdx.x;
    is_there = lane < groups * systems;
    if (!is_there) lane = 0;
    system = lane / groups;
    first = (lane - system * groups) * GROUP;
    const long long remaining = parts - first;
    count = remaining < GROUP ? int(remaining) : GROUP;
    is_last = remaining <= GROUP;
    cells = system * parts + first;
    shared_cells = shared + threadIdx.x * STRIDE;
  }
  DEVICE T* cell(int k) const { return shared_cells + 10 * k; }
};

// Load the cells of the groups of a warp's threads, one group after the other.
DEVICE inline void load_cells(T* shared, const T* cells, const PartGroup& group) {
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  for (int k = 0; k < 32; ++k) {
    const int size = 10 * __shfl_sync(~0u, group.is_there ? group.count : 0, k);
    const T* from = cells + 10 * __shfl_sync(~0u, group.cells, k);
    for (int e = lane; e < size; e += 32)
      copy_word(shared + (base + k) * PartGroup::STRIDE + e, from + e);
  }
  copies_commit();
  copies_wait();
  __syncwarp();
}

// Reduce each group of parts to one cell.
extern "C" __global__ void merge_kernel(const T* cells, T* merged, long long parts,
                                        long long systems) {
  const PartGroup group((T*)shared_bytes, parts, systems);
  load_cells((T*)shared_bytes, cells, group);
  const long long lane = blockIdx.x * (long long)MERGERS + threadIdx.x;
  if (group.is_there) merge_cells(group.shared_cells, group.count, merged + 10 * lane);
}

// Replace the rows of parts by pivots; move known unknowns to their right-hand sides.
DEVICE inline void factor_parts(T* cells, int count, T before, T first, PendingRows& pending,
                                Pivots& seen) {
  Row<7> pivot;
  Row<6> second;
  for (int k = 0; k < count; ++k) {
    T* cell = cells + 10 * k;
    advance_part(pending, cell, seen, pivot, second);
    cell[0] = Inverse(pivot[0]).value();
#pragma unroll
    for (int j = 1; j < 4; ++j) cell[j] = pivot[j];
    cell[4] = minus_product(minus_product(pivot[6], pivot[4], before), pivot[5], first);
    cell[5] = Inverse(second[0]).value();
#pragma unroll
    for (int j = 1; j < 3; ++j) cell[5 + j] = second[j];
    cell[9] = minus_product(minus_product(second[5], second[3], before), second[4], first);
  }
}

// Write the cut before every part, from the last to the first, to the first numbers of its cell.
DEVICE inline void substitute_parts(T* cells, int count, T last, T after, T nonfinite) {
  for (int k = count - 1; k >= 0; --k) {
    T* cell = cells + 10 * k;
    T rhs = minus_product(minus_product(cell[9], cell[6], last), cell[7], after);
    const T first = rhs * cell[5];
    rhs = minus_product(cell[4], cell[1], first);
    rhs = minus_product(minus_product(rhs, cell[2], last), cell[3], after);
    last = rhs * cell[0];
    after = first;
    cell[0] = last + nonfinite;
    cell[1] = after + nonfinite;
  }
}

// Store the cuts before the parts of a warp's groups, and the cut after a system.
DEVICE inline void store_cuts(const T* shared, T* cuts, const PartGroup& group, T last, T after) {
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  __syncwarp();
  for (int k = 0; k < 32; ++k) {
    const int size = 2 * __shfl_sync(~0u, group.is_there ? group.count : 0, k);
    // A system of n parts has n + 1 cuts.
    T* to = cuts + 2 * __shfl_sync(~0u, group.cells + group.system, k);
    const T* from = shared + (base + k) * PartGroup::STRIDE;
    for (int e = lane; e < size; e += 32) to[e] = from[e / 2 * 10 + e % 2];
  }
  if (group.is_there && group.is_last) {
    T* end = cuts + 2 * (group.cells + group.system + group.count);
    end[0] = last;
    end[1] = after;
  }
}

// Write the cuts inside groups of parts, from the known cuts at their ends.
extern "C" __global__ void open_kernel(const T* cells, T* cuts, const T* known, long long parts,
                                       long long systems) {
  const PartGroup group((T*)shared_bytes, parts, systems);
  load_cells((T*)shared_bytes, cells, group);
  const long long lane = blockIdx.x * (long long)MERGERS + threadIdx.x;
  const T* ends = known + 2 * (group.is_there ? lane + group.system : 0);
  const T before = ends[0], first = ends[1], last = ends[2], after = ends[3];
  PendingRows pending = PendingRows::copies();
  Pivots seen;
  seen.nonfinite = zero_or_nan((before + first) + (last + after));
  if (group.is_there) {
    factor_parts(group.shared_cells, group.count, before, first, pending, seen);
    substitute_parts(group.shared_cells, group.count, last, after, seen.nonfinite);
    // The known values, without the rounding errors of back substitution.
    group.shared_cells[0] = before + seen.nonfinite;
    group.shared_cells[1] = first + seen.nonfinite;
  }
  store_cuts((const T*)shared_bytes, cuts, group, last + seen.nonfinite, after + seen.nonfinite);
}

// Write all cuts of whole systems of GROUP parts at most, a thread a system. `status` becomes the
// numbers of the first singular system, and of the first that contains nan or inf.
extern "C" __global__ void solve_kernel(const T* cells, T* cuts, long long parts, long long systems,
                                        unsigned long long* status) {
  const PartGroup group((T*)shared_bytes, parts, systems);
  load_cells((T*)shared_bytes, cells, group);
  Pivots seen;
  T last = T(0);
  if (group.is_there) {
    // The coefficients of the unknowns before and after a whole system are ignored.
    T* end = group.cell(group.count - 1);
    group.shared_cells[0] = group.shared_cells[5] = end[3] = end[8] = T(0);
    PendingRows pending = PendingRows::copies();
    pending.lower = {{T(0), T(0), T(0), T(0), T(0)}};
    factor_parts(group.shared_cells, group.count, T(0), T(0), pending, seen);
    order(pending.upper, pending.lower);
    seen.take(magnitude(pending.upper[0]));
    last = Inverse(pending.upper[0]).ratio(pending.upper[4]);
    substitute_parts(group.shared_cells, group.count, last, T(0), seen.nonfinite);
    // The product is nan in both parts if one part is nan.
    const bool is_nonfinite = !(magnitude(seen.nonfinite * seen.nonfinite) == 0);
    if (is_nonfinite) atomicMin(status + 1, (unsigned long long)group.system);
    if (!(seen.least > 0) && !is_nonfinite) atomicMin(status, (unsigned long long)group.system);
  }
  store_cuts((const T*)shared_bytes, cuts, group, last + seen.nonfinite, seen.nonfinite);
}

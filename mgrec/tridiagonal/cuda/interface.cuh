// The reduced system: the interface rows of the parts of a system, partitions or runs of them.
//
// tridiagonal/cpu/interface.py has the same steps. A cell has the two rows of a part, each as
// coefficients of (last[k-1], first[k], last[k], first[k+1]) and right-hand side. A cut is the pair
// of unknowns (last[k-1], first[k]). A line is one system; a line of n parts has n + 1 cuts.
#pragma once
#include "engines/cuda/memory/copies.cuh"
#include "tridiagonal/cuda/elimination.cuh"

// The smallest pivot of an elimination, and nan if a row contained nan or inf.
template <class T> struct Pivots {
  decltype(magnitude(T())) least = 1;
  T odd = T(0);
  DEVICE void take(decltype(magnitude(T())) size) { least = size < least ? size : least; }
};

template <class T> DEVICE inline void write_cell(T* cell, const Held<T>& held, const Pivots<T>& seen) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Row<T, 5>& row = r ? held.lower : held.upper;
    const T numbers[5] = {row[2], row[3], row[0], row[1], row[4]};
#pragma unroll
    for (int k = 0; k < 5; ++k) cell[5 * r + k] = (seen.least > 0 ? numbers[k] : T(0)) + seen.odd;
  }
}

template <class T> DEVICE inline Row<T, 5> cell_row(const T* cell, Pivots<T>& seen) {
  auto size = larger(magnitude(cell[0]), magnitude(cell[1]));
  size = larger(size, larger(magnitude(cell[2]), magnitude(cell[3])));
  const auto scale = scale_of(size);
  Row<T, 5> row;
#pragma unroll
  for (int k = 0; k < 5; ++k) row[k] = scaled(cell[k], scale);
  seen.odd = seen.odd + odd_part(((row[0] + row[1]) + (row[2] + row[3])) + cell[4]);
  seen.take(size);
  return row;
}

// Eliminate last[k-1] and first[k] from the pending rows and the rows of part k.
template <class T>
DEVICE inline void advance_part(Held<T>& held, const T* cell, Pivots<T>& seen, Row<T, 7>& pivot,
                                Row<T, 6>& second) {
  const Row<T, 5> own = cell_row(cell, seen), own_other = cell_row(cell + 5, seen);
  const Row<T, 5>&u = held.upper, &l = held.lower;
  pivot = {{own[0], own[1], own[2], own[3], T(0), T(0), own[4]}};
  Row<T, 7> one = {{own_other[0], own_other[1], own_other[2], own_other[3], T(0), T(0), own_other[4]}};
  Row<T, 7> upper = {{u[0], u[1], T(0), T(0), u[2], u[3], u[4]}};
  Row<T, 7> lower = {{l[0], l[1], T(0), T(0), l[2], l[3], l[4]}};
  order(pivot, one);
  order(pivot, upper);
  order(pivot, lower);
  const Inverse<T> inverse(pivot[0]);
  second = eliminated(upper, pivot, inverse);
  Row<T, 6> low = eliminated(lower, pivot, inverse), rest = eliminated(one, pivot, inverse);
  order(second, low);
  order(second, rest);
  const Inverse<T> inverse_second(second[0]);
  held.upper = eliminated(low, second, inverse_second);
  held.lower = eliminated(rest, second, inverse_second);
  held.part();
  seen.take(magnitude(pivot[0]));
  seen.take(magnitude(second[0]));
}

// Join two halves of a partition that were eliminated from its ends: eliminate both unknowns in the
// middle, x[m-1] and x[m]. The pending rows of the upper half become those of the partition.
template <class T>
DEVICE inline void join_halves(Held<T>& upper, const Held<T>& lower, Pivots<T>& seen,
                               Row<T, 7>& pivot, Row<T, 6>& second) {
  T cell[10];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Row<T, 5>& row = r ? lower.lower : lower.upper;
    const T numbers[5] = {row[1], row[0], row[3], row[2], row[4]};
#pragma unroll
    for (int k = 0; k < 5; ++k) cell[5 * r + k] = numbers[k];
  }
  // Rows with nan or inf were seen when they were read. Here a pivot of 0 leads to nan, too.
  const T odd = seen.odd;
  advance_part(upper, cell, seen, pivot, second);
  seen.odd = odd;
}

// The unknown before a part, its first unknown, its last, and the one after it.
template <class T> struct Around { T before, first, last, after; };
// The unknowns on both sides of a cut.
template <class T> struct Cut { T above, below; };

// The pivots that give the cut between two parts from the unknowns around both.
template <class T> struct Link {
  static constexpr int SIZE = 11;
  T v[SIZE];
  DEVICE Link() {}
  DEVICE Link(const Row<T, 7>& pivot, const Row<T, 6>& second) {
    const Inverse<T> inverse(pivot[0]), inverse_second(second[0]);
#pragma unroll
    for (int k = 0; k < 5; ++k) v[k] = inverse_second.ratio(second[k + 1]);
#pragma unroll
    for (int k = 0; k < 6; ++k) v[5 + k] = inverse.ratio(pivot[k + 1]);
  }
  DEVICE Cut<T> cut(const Around<T>& known) const {
    T below = minus_product(minus_product(v[4], v[0], known.last), v[1], known.after);
    below = minus_product(minus_product(below, v[2], known.before), v[3], known.first);
    T above = minus_product(minus_product(v[10], v[5], below), v[6], known.last);
    above = minus_product(minus_product(above, v[7], known.after), v[8], known.before);
    return {minus_product(above, v[9], known.first), below};
  }
};

// A run of GROUP parts, one a thread, with its cells in shared memory.
template <class T> struct Run {
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
template <class T> DEVICE inline void load_cells(T* shared, const T* cells, const Run<T>& run) {
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  for (int k = 0; k < 32; ++k) {
    const int size = 10 * __shfl_sync(~0u, run.is_there ? run.count : 0, k);
    const T* from = cells + 10 * __shfl_sync(~0u, run.cells, k);
    for (int e = lane; e < size; e += 32)
      copy_word(shared + (base + k) * Run<T>::STRIDE + e, from + e);
  }
  copies_commit();
  copies_wait();
  __syncwarp();
}

// Reduce each run of parts to one cell.
template <class T>
DEVICE inline void merge_parts(const T* cells, T* merged, long long parts, long long lines) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const Run<T> run((T*)shared_bytes, parts, lines);
  load_cells((T*)shared_bytes, cells, run);
  if (!run.is_there) return;
  Held<T> held = Held<T>::copies();
  Pivots<T> seen;
  Row<T, 7> pivot;
  Row<T, 6> second;
  for (int k = 0; k < run.count; ++k) advance_part(held, run.cell(k), seen, pivot, second);
  write_cell(merged + 10 * (blockIdx.x * (long long)MERGERS + threadIdx.x), held, seen);
}

// Replace the rows of parts by pivots; move known unknowns to their right-hand sides.
template <class T>
DEVICE inline void factor_parts(T* cells, int count, T before, T first, Held<T>& held,
                                Pivots<T>& seen) {
  Row<T, 7> pivot;
  Row<T, 6> second;
  for (int k = 0; k < count; ++k) {
    T* own = cells + 10 * k;
    advance_part(held, own, seen, pivot, second);
    own[0] = Inverse<T>(pivot[0]).value();
#pragma unroll
    for (int j = 1; j < 4; ++j) own[j] = pivot[j];
    own[4] = minus_product(minus_product(pivot[6], pivot[4], before), pivot[5], first);
    own[5] = Inverse<T>(second[0]).value();
#pragma unroll
    for (int j = 1; j < 3; ++j) own[5 + j] = second[j];
    own[9] = minus_product(minus_product(second[5], second[3], before), second[4], first);
  }
}

// Write the cut before every part, from the last to the first, to the first numbers of its cell.
template <class T>
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
template <class T>
DEVICE inline void store_cuts(const T* shared, T* cuts, const Run<T>& run, T last, T after) {
  const int lane = threadIdx.x % 32, base = threadIdx.x - lane;
  __syncwarp();
  for (int k = 0; k < 32; ++k) {
    const int size = 2 * __shfl_sync(~0u, run.is_there ? run.count : 0, k);
    // A line of n parts has n + 1 cuts.
    T* to = cuts + 2 * __shfl_sync(~0u, run.cells + run.line, k);
    const T* own = shared + (base + k) * Run<T>::STRIDE;
    for (int e = lane; e < size; e += 32) to[e] = own[e / 2 * 10 + e % 2];
  }
  if (run.is_there && run.is_last) {
    T* end = cuts + 2 * (run.cells + run.line + run.count);
    end[0] = last;
    end[1] = after;
  }
}

// Write the cuts inside runs of parts, from the known cuts at their ends.
template <class T>
DEVICE inline void open_parts(const T* cells, T* cuts, const T* known, long long parts,
                              long long lines) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const Run<T> run((T*)shared_bytes, parts, lines);
  load_cells((T*)shared_bytes, cells, run);
  const long long lane = blockIdx.x * (long long)MERGERS + threadIdx.x;
  const T* given = known + 2 * (run.is_there ? lane + run.line : 0);
  const T before = given[0], begin = given[1], last = given[2], after = given[3];
  Held<T> held = Held<T>::copies();
  Pivots<T> seen;
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
template <class T>
DEVICE inline void solve_lines(const T* cells, T* cuts, long long parts, long long lines,
                               unsigned long long* status) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const Run<T> run((T*)shared_bytes, parts, lines);
  load_cells((T*)shared_bytes, cells, run);
  Pivots<T> seen;
  T last = T(0);
  if (run.is_there) {
    // The coefficients of the unknowns before and after a whole line are ignored.
    T* end = run.cell(run.count - 1);
    run.own[0] = run.own[5] = end[3] = end[8] = T(0);
    Held<T> held = Held<T>::copies();
    held.lower = {{T(0), T(0), T(0), T(0), T(0)}};
    factor_parts(run.own, run.count, T(0), T(0), held, seen);
    order(held.upper, held.lower);
    seen.take(magnitude(held.upper[0]));
    last = Inverse<T>(held.upper[0]).ratio(held.upper[4]);
    substitute_parts(run.own, run.count, last, T(0), seen.odd);
    // The product is nan in both parts if one part is nan.
    const bool is_odd = !(magnitude(seen.odd * seen.odd) == 0);
    if (is_odd) atomicMin(status + 1, (unsigned long long)run.line);
    if (!(seen.least > 0) && !is_odd) atomicMin(status, (unsigned long long)run.line);
  }
  store_cuts((const T*)shared_bytes, cuts, run, last + seen.odd, seen.odd);
}

// Whole lines in a block, with partial pivoting: read once, written once.
//
// A thread eliminates its partition from both ends to the middle. Neighbouring parts are merged in
// pairs until a line is one part, which gives its first and its last unknown. Back down, what was
// kept of each merger gives the unknowns on both sides of its cut; at last every partition is
// eliminated again, and its pivots take the place of its rows.
#pragma once
#include "tridiagonal/tiles.cuh"
#include "tridiagonal/interface.cuh"

// A partition in shared memory: where its rows of each operand begin.
struct Part {
  T* tile;
  int place[4];
  int length;

  DEVICE Part(T* tile, const Windows& all, const Window& window, const Spot& spot)
      : tile(tile), length(spot.length) {
    const Rows rows(all, window, spot);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      place[k] = k * TILE + rows.start + shift_of(all, all.operands[k], window);
  }
  DEVICE T& at(int k, int row) const { return tile[place[k] + row]; }
  DEVICE int middle() const { return (length + 1) / 2; }

  // Eliminate all rows. `keep` is given whether a row is of the lower half, its number, the pivot
  // and its inverse.
  template <class Keep>
  DEVICE void eliminate(const Windows& all, const Spot& spot, Held<T>& upper, Held<T>& lower,
                        T& odd, Keep keep) const {
    // Where lines are short a warp would have to do both.
    const bool is_inner = spot.first > 0 && !spot.is_last && all.parts.number > 32;
    if (is_inner && length == ROWS)
      eliminate_rows<true>(all, spot, upper, lower, odd, keep);
    else
      eliminate_rows<false>(all, spot, upper, lower, odd, keep);
  }

 private:
  template <bool IS_FULL, class Keep>
  DEVICE void eliminate_rows(const Windows& all, const Spot& spot, Held<T>& upper, Held<T>& lower,
                             T& odd, Keep keep) const {
    const int rows = IS_FULL ? ROWS : length, half = (rows + 1) / 2;
    for (int row = 0; row < half; ++row) {
      const int back = rows - 1 - row;
      Inverse<T> inverse(T(1)), inverse_back(T(1));
      const TileRow own = TileRow::load<IS_FULL>(tile, place, row, all, spot);
      keep(false, row,
           advance(upper, scaled_row(own.dl, own.d, own.du, own.b, odd), inverse), inverse);
      if (IS_FULL || back >= half) {
        const TileRow other = TileRow::load<IS_FULL>(tile, place, back, all, spot);
        keep(true, back,
             advance(lower, scaled_row(other.du, other.d, other.dl, other.b, odd), inverse_back),
             inverse_back);
      }
      if (upper.is_large() || lower.is_large()) {
        upper.part();
        lower.part();
      }
    }
  }
};

DEVICE inline Cut<T> factor(const Part& part, const Windows& all, const Spot& spot,
                            const Around<T>& ends) {
  Held<T> upper = Held<T>::copies(), lower = Held<T>::copies();
  Pivots<T> seen;
  part.eliminate(
      all, spot, upper, lower, seen.odd,
      [&](bool is_lower, int row, const Row<T, 6>& pivot, const Inverse<T>& inverse) {
        const T before = is_lower ? ends.after : ends.before;
        const T first = is_lower ? ends.last : ends.first;
        part.at(0, row) = inverse.value();
        part.at(1, row) = pivot[1];
        part.at(2, row) = pivot[2];
        part.at(3, row) = minus_product(minus_product(pivot[5], pivot[3], before), pivot[4], first);
      });
  Row<T, 7> pivot;
  Row<T, 6> second;
  join_halves(upper, lower, seen, pivot, second);
  Cut<T> middle = Link<T>(pivot, second).cut(ends);
  // What was given, without the rounding errors of the way there.
  if (part.length <= 2) middle.above = ends.first;
  if (part.length == 1) middle.below = ends.after;
  if (part.length == 2 || part.length == 3) middle.below = ends.last;
  return middle;
}

// The unknown beyond x = near, of which far is the one before, by the pivot at a row.
DEVICE inline T next_unknown(const Part& part, int row, T near, T far) {
  const T rest = minus_product(part.at(3, row), part.at(2, row), far);
  return minus_product(rest, part.at(1, row), near) * part.at(0, row);
}

// x in place of operand 3. The pivot at row i gives x[i-1], in the lower half x[i+1].
DEVICE inline void substitute(const Part& part, const Around<T>& ends, const Cut<T>& middle) {
  const int half = part.middle();
  T near = middle.above, far = middle.below, back_near = middle.below, back_far = middle.above;
  for (int step = 0; step < half; ++step) {
    const int row = half - 1 - step, back = half + step;
    const T x = next_unknown(part, row, near, far);
    part.at(3, row) = near;
    far = near;
    near = row == 1 ? ends.first : x;
    if (back < part.length) {
      const T back_x = next_unknown(part, back, back_near, back_far);
      part.at(3, back) = back_near;
      back_far = back_near;
      back_near = back == part.length - 2 ? ends.last : back_x;
    }
  }
}

// Numbers of all threads in shared memory, one thread's THREADS apart.
struct Shared {
  T* links;  // of a part: its interface rows until it is merged, then what gives the cut before it
  T *before, *first, *last;  // of a part, the unknown before it and its first; of a line, its last

  DEVICE explicit Shared(T* free)
      : links(free), before(free + Link<T>::SIZE * THREADS), first(before + THREADS),
        last(first + THREADS) {}
  template <int N> DEVICE void store(const T (&numbers)[N], int thread) const {
#pragma unroll
    for (int k = 0; k < N; ++k) links[k * THREADS + thread] = numbers[k];
  }
  template <int N> DEVICE void load(T (&numbers)[N], int thread) const {
#pragma unroll
    for (int k = 0; k < N; ++k) numbers[k] = links[k * THREADS + thread];
  }
  // Of the parts from one to another of a line of so many.
  DEVICE Around<T> around(int thread, int part, int end, int parts) const {
    const int line = thread - part;
    if (end >= parts) return {before[thread], first[thread], last[line], T(0)};
    return {before[thread], first[thread], before[line + end], first[line + end]};
  }
};

// A line's first and last unknown: nothing is before and after it.
DEVICE inline Cut<T> ends_of_line(const Held<T>& held, Pivots<T>& seen) {
  Row<T, 3> pivot = {{held.upper[0], held.upper[3], held.upper[4]}};
  Row<T, 3> other = {{held.lower[0], held.lower[3], held.lower[4]}};
  order(pivot, other);
  const Inverse<T> inverse(pivot[0]);
  const Row<T, 2> rest = eliminated(other, pivot, inverse);
  seen.take(magnitude(pivot[0]));
  seen.take(magnitude(rest[0]));
  const T first = Inverse<T>(rest[0]).ratio(rest[1]);
  return {inverse.ratio(minus_product(pivot[2], pivot[1], first)) + seen.odd, first + seen.odd};
}

// `status` is told of the first line that is singular, and of the first that holds nan or inf.
DEVICE inline void solve_in_block(const Windows& all, unsigned long long* status) {
  T* tile = (T*)shared_bytes;
  const Shared shared(tile + 4 * TILE);
  const int own = threadIdx.x, parts = int(all.parts.number);
  const Window window(all, blockIdx.x);
  const Spot spot = Spot::of_thread(all, window.first);
  const bool is_there = spot.length > 0;
  const int number = int(spot.first) / ROWS;
  load_window(tile, all, window, spot);
  copies_wait();
  __syncthreads();

  const Part part(tile, all, window, spot);
  Held<T> held = Held<T>::copies();
  Pivots<T> seen;
  Row<T, 7> pivot;
  Row<T, 6> second;
  if (is_there) {
    Held<T> lower = Held<T>::copies();
    part.eliminate(all, spot, held, lower, seen.odd,
                   [&](bool, int, const Row<T, 6>& pivot, const Inverse<T>&) {
                     seen.take(magnitude(pivot[0]));
                   });
    join_halves(held, lower, seen, pivot, second);
  }
  int apart = 1;
  for (; apart < parts; apart *= 2) {
    const int place = number % (2 * apart);
    T cell[10];
    if (is_there && place == apart) {
      write_cell(cell, held, seen);
      shared.store(cell, own);
    }
    __syncthreads();
    if (is_there && place == 0 && number + apart < parts) {
      shared.load(cell, own + apart);
      advance_part(held, cell, seen, pivot, second);
      shared.store(Link<T>(pivot, second).v, own + apart);
    }
  }
  if (is_there && number == 0) {
    const Cut<T> ends = ends_of_line(held, seen);
    const bool is_odd = !(magnitude(seen.odd) == 0);
    if (is_odd) atomicMin(status + 1, (unsigned long long)spot.outer);
    if (!(seen.least > 0) && !is_odd) atomicMin(status, (unsigned long long)spot.outer);
    shared.before[own] = seen.odd;
    shared.first[own] = ends.below;
    shared.last[own] = ends.above;
  }
  __syncthreads();
  while (apart > 1) {
    apart /= 2;
    if (is_there && number % (2 * apart) == 0 && number + apart < parts) {
      Link<T> link;
      shared.load(link.v, own + apart);
      const Cut<T> cut = link.cut(shared.around(own, number, number + 2 * apart, parts));
      shared.before[own + apart] = cut.above;
      shared.first[own + apart] = cut.below;
    }
    __syncthreads();
  }
  if (is_there) {
    const Around<T> ends = shared.around(own, number, number + 1, parts);
    substitute(part, ends, factor(part, all, spot, ends));
  }
  __syncthreads();
  const T* stored = tile + 3 * TILE + shift_of(all, all.operands[3], window);
  const int size = int(window.end - window.row);
  for (int k = own; k < size; k += THREADS) all.result[window.row + k] = stored[k];
}

// Systems that need no pivoting and forget: read once, written once.
//
// A window is a run of partitions of ROWS rows on chip, THREADS / WIDTH of them for each of WIDTH
// columns; a thread has one. The last row of a partition is its separator: the others are
// eliminated within the thread, in registers, and the separators' rows, one a thread, are reduced
// by parallel cyclic reduction until they no longer hang together. What lies outside a window is
// taken for 0. So either a line is whole in a window, or a window has `halo` partitions on either
// side that other windows write, and what they let through of the unknowns beyond is measured.
//
// Every number that a pivot was divided by and every ratio is measured as well. Where one is out
// of bounds, `is_solved` becomes 0, and all is to be solved again with pivoting.
#pragma once
#include "tridiagonal/cuda/tiles.cuh"

typedef decltype(magnitude(T())) Real;
constexpr bool IS_SINGLE = sizeof(Real) == 4;
// Ratios of a row to its pivot; 1 where rows are dominant.
constexpr Real MOST_RATIO = 4, LEAST_PIVOT = Real(1) / 16;
constexpr Real LARGEST = IS_SINGLE ? Real(0x1p60) : Real(0x1p500);
// What separators may still have to do with each other, and with what is beyond a window.
constexpr Real APART = IS_SINGLE ? Real(0x1p-48) : Real(0x1p-104);
constexpr Real FORGOTTEN = IS_SINGLE ? Real(0x1p-27) : Real(0x1p-56);

DEVICE inline float sum_of_parts(float x) { return fabs(x); }
DEVICE inline double sum_of_parts(double x) { return fabs(x); }
template <class R> DEVICE inline R sum_of_parts(complex<R> x) { return fabs(x.re) + fabs(x.im); }

// What is known of a partition when its rows but the last are eliminated: of each
//   before·z[-1] + x[i] + after·x[i+1] = rhs, with z[-1] the separator before it.
struct Eliminated {
  T before[ROWS], after[ROWS], rhs[ROWS];
};

__shared__ T published[2][3][THREADS];
__shared__ Real passed[2][THREADS];
__shared__ long long interior_run[2];

// The largest ratio and pivot. What becomes nan makes a result nan, and is found there: so does a
// pivot of 0 or inf, by its inverse.
struct Bounds {
  Real most_ratio = 0, most_pivot = 0;
  bool bad = false;
  DEVICE void ratio(T x) { most_ratio = fmax(most_ratio, magnitude(x)); }
  DEVICE void pivot(T x) { most_pivot = fmax(most_pivot, magnitude(x)); }
  DEVICE bool are_passed() const {
    return bad || !(most_ratio <= MOST_RATIO && most_pivot <= LARGEST);
  }
};

// What the first unknown of a partition is, but for the separators on both sides.
struct FirstRow { T before, after, rhs; };

// Eliminate all rows of a partition but the last, which is returned.
template <bool IS_FULL>
DEVICE inline TileRow eliminate(const T* tile, const int* place, const Windows& all, const Spot& spot,
                                Eliminated& done, FirstRow& first, Bounds& bounds) {
#pragma unroll
  for (int k = 0; k < ROWS - 1; ++k) {
    const TileRow row = TileRow::load<IS_FULL>(tile, place, k, all, spot);
    const T pivot = k == 0 ? row.d : minus_product(row.d, row.dl, done.after[k - 1]);
    bounds.pivot(pivot);
    const T inverse = inverse_of(pivot);
    done.before[k] = (k == 0 ? row.dl : T(0) - row.dl * done.before[k - 1]) * inverse;
    done.after[k] = row.du * inverse;
    done.rhs[k] = (k == 0 ? row.b : minus_product(row.b, row.dl, done.rhs[k - 1])) * inverse;
    bounds.ratio(done.before[k]);
    bounds.ratio(done.after[k]);
    if (k == 0) {
      first = {done.before[0], done.after[0], done.rhs[0]};
    } else {
      first.rhs = minus_product(first.rhs, first.after, done.rhs[k]);
      first.before = minus_product(first.before, first.after, done.before[k]);
      first.after = T(0) - first.after * done.after[k];
    }
  }
  return TileRow::load<IS_FULL>(tile, place, ROWS - 1, all, spot);
}

// Until what this thread will read of a tile is there: columns are loaded by those who read them.
DEVICE inline void await_loaded() {
  if (WIDTH > 1)
    __syncwarp();
  else
    __syncthreads();
}

DEVICE inline void solve_windows(const Windows& all) {
  T* tile = (T*)shared_bytes;
  T* results = tile + 4 * TILE;
  const int own = threadIdx.x, lane = own / WIDTH;
  if (blockIdx.x >= all.count || (all.is_settled != nullptr && *all.is_settled != 0)) return;
  Window window(all, blockIdx.x);
  Spot spot = Spot::of_thread(all, window.first);
  load_window(tile, all, window, spot);
  for (long long number = blockIdx.x; number < all.count; number += gridDim.x) {
    const Rows rows(all, window, spot);
    int place[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      place[k] = k * TILE + rows.start + shift_of(all, all.operands[k], window);
    // Where lines are short a warp would have to do both.
    const bool is_inner = spot.first > 0 && !spot.is_last;
    const bool is_full = all.parts.number > 32 && spot.length == ROWS && is_inner;
    copies_wait();
    await_loaded();

    Eliminated done;
    Bounds bounds;
    FirstRow first;
    TileRow row = is_full ? eliminate<true>(tile, place, all, spot, done, first, bounds)
                          : eliminate<false>(tile, place, all, spot, done, first, bounds);
    bounds.ratio(first.before);
    bounds.ratio(first.after);
    published[1][0][own] = first.before;
    published[1][1][own] = first.after;
    published[1][2][own] = first.rhs;
    const Spot here = spot;
    const Window its = window;
    const bool is_more = number + gridDim.x < all.count;
    if (is_more) {
      window = Window(all, number + gridDim.x);
      spot = Spot::of_thread(all, window.first);
    }
    if (WIDTH > 1 && is_more) {
      __syncwarp();
      load_window(tile, all, window, spot);
    }
    if (__syncthreads_or(bounds.are_passed())) {
      if (own == 0) *all.is_solved = 0;
      return;
    }
    if (WIDTH == 1 && is_more) load_window(tile, all, window, spot);
    const T dl = row.dl, d = row.d, du = row.du, b = row.b;

    // The separator's row: before·z[-1] + z + after·z[+1] = rhs.
    const bool is_end = lane == LANES - 1 || here.is_last;
    const int next = is_end ? own : own + WIDTH;
    T pivot = minus_product(d, dl, done.after[ROWS - 2]);
    if (!is_end) pivot = minus_product(pivot, du, published[1][0][next]);
    bounds.pivot(pivot);
    const T inverse = inverse_of(pivot);
    T before = (T(0) - dl * done.before[ROWS - 2]) * inverse;
    T after = (is_end ? du : T(0) - du * published[1][1][next]) * inverse;
    T rhs = minus_product(b, dl, done.rhs[ROWS - 2]);
    if (!is_end) rhs = minus_product(rhs, du, published[1][2][next]);
    rhs = rhs * inverse;
    bounds.ratio(before);
    bounds.ratio(after);
    if (here.first == 0) {
      rhs = minus_product(rhs, before, known_before(all, here));
      before = T(0);
    }
    if (here.is_last) {
      rhs = minus_product(rhs, after, known_after(all, here));
      after = T(0);
    }
    const Real left = sum_of_parts(before), right = sum_of_parts(after);
    passed[0][own] = left / (1 - right);
    passed[1][own] = right / (1 - left);
    if (all.halo > 0) bounds.bad |= !(left + right <= Real(1.0001) && left < 1 && right < 1);
    if (is_end) after = T(0);
    if (lane == 0) before = T(0);
    int from = 0;
    published[0][0][own] = before;
    published[0][1][own] = after;
    published[0][2][own] = rhs;
    bool hangs = __syncthreads_or(!(magnitude(before) <= APART && magnitude(after) <= APART));
    if (all.halo > 0 && lane == 0) {
      Real from_left = 1, from_right = passed[1][own + (LANES - 1) * WIDTH];
      for (int k = 0; k < all.halo; ++k) {
        from_left *= passed[0][own + k * WIDTH];
        from_right *= passed[1][own + (LANES - 2 - k) * WIDTH];
      }
      bounds.bad |= !(from_left <= FORGOTTEN && from_right <= FORGOTTEN);
    }
    for (int distance = 1; distance < LANES && hangs; distance *= 2) {
      const bool has_left = lane >= distance, has_right = lane + distance < LANES;
      const int l = has_left ? own - distance * WIDTH : own;
      const int r = has_right ? own + distance * WIDTH : own;
      const T one = has_left ? before : T(0), other = has_right ? after : T(0);
      T pivot = minus_product(T(1), one, published[from][1][l]);
      pivot = minus_product(pivot, other, published[from][0][r]);
      bounds.bad |= !(magnitude(pivot) >= LEAST_PIVOT);
      const T inverse = inverse_of(pivot);
      rhs = minus_product(rhs, one, published[from][2][l]);
      rhs = minus_product(rhs, other, published[from][2][r]) * inverse;
      before = (T(0) - one * published[from][0][l]) * inverse;
      after = (T(0) - other * published[from][1][r]) * inverse;
      bounds.ratio(before);
      bounds.ratio(after);
      from = 1 - from;
      published[from][0][own] = before;
      published[from][1][own] = after;
      published[from][2][own] = rhs;
      hangs = __syncthreads_or(!(magnitude(before) <= APART && magnitude(after) <= APART));
    }

    const bool is_first = lane == 0 || here.first == 0;
    const T z = is_first ? known_before(all, here) : published[from][2][own - WIDTH];
    done.rhs[ROWS - 1] = rhs;
    T odd = odd_part(rhs);
#pragma unroll
    for (int row = ROWS - 2; row >= 0; --row) {
      const T rest = minus_product(done.rhs[row], done.before[row], z);
      done.rhs[row] = minus_product(rest, done.after[row], done.rhs[row + 1]);
      odd = odd + odd_part(done.rhs[row]);
    }
    const bool counts = lane >= all.halo && lane < all.halo + all.interior && here.length > 0;
    // A halo may be odd at a window's outer end.
    const bool is_bad = bounds.are_passed() || (counts && !(magnitude(odd) == 0));
    if (WIDTH == 1) {
#pragma unroll
      for (int k = 0; k < ROWS; ++k)
        if (k < here.length) results[rows(k)] = done.rhs[k];
      // Rows of the interior are one run.
      if (counts && lane == all.halo) interior_run[0] = here.row(all);
      const long long place = its.first + lane;
      const bool ends = lane == all.halo + all.interior - 1 || place == all.all_parts() - 1;
      if (counts && ends) interior_run[1] = here.row(all) + here.length;
    }
    if (__syncthreads_or(is_bad)) {
      if (own == 0) *all.is_solved = 0;
      return;
    }
    if (WIDTH == 1) {
      const long long begin = interior_run[0];
      const int size = int(interior_run[1] - begin);
      const T* stored = results + (begin - its.row);
      T* to = all.result + begin;
      for (int k = own; k < size; k += THREADS) to[k] = stored[k];
    } else if (counts) {
      T* to = all.result + (here.outer * all.steps + here.first) * all.inner + here.column;
#pragma unroll
      for (int k = 0; k < ROWS; ++k)
        if (k < here.length) to[k * all.inner] = done.rhs[k];
    }
  }
}

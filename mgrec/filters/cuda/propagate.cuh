// The states after each segment of a row: E_j = M·E_{j−1} + v_j, where v_j are the states after
// segment j from states of 0, and M = A^length.
//
// Where poles crowd, powers of M grow by many orders of magnitude before they decay, and rounding
// errors of M and of products with them. If EXACT, powers are sums of two numbers, and products and
// sums keep their rounding errors: a segment then costs one rounding, as a sample does.
//
// With many segments, a block computes one row. A thread reduces `chunk` segments. The threads of a
// warp, and then the warps, are scanned with powers of M. Each thread then reads its segments again.
#pragma once
#include "filters/cuda/lane.cuh"

constexpr int WARPS = THREADS / 32, CELLS = STATE_SIZE * STATE_SIZE;

DEVICE inline State from_below(const State& state, int distance) {
  State below;
#pragma unroll(UNROLLED)
  for (int q = 0; q < STATES; ++q) below.v[q] = from_below(state.v[q], distance);
  return below;
}

// A sum of products and, if IS_EXACT, its rounding errors (Ogita, Rump and Oishi 2005).
template <class T, bool IS_EXACT> struct Total {
  T rounded;
  DEVICE explicit Total(T first) : rounded(first) {}
  DEVICE void add(T x, T, T y) { rounded = multiply_add(x, y, rounded); }
  DEVICE T sum() const { return rounded; }
};
template <> struct Total<double, true> {
  double rounded, errors;
  DEVICE explicit Total(double first) : rounded(first), errors(0) {}
  // Add (x + error) · y.
  DEVICE void add(double x, double error, double y) {
    const double term = product(x, y), before = rounded;
    rounded = before + term;
    const double added = rounded - before;
    errors += (before - (rounded - added)) + (term - added) + fma(error, y, fma(x, y, -term));
  }
  // Where numbers are not finite, neither are the errors.
  DEVICE double sum() const { return errors - errors == 0 ? rounded + errors : rounded; }
};
template <> struct Total<complex<double>, true> {
  Total<double, true> re, im;
  DEVICE explicit Total(complex<double> first) : re(first.re), im(first.im) {}
  DEVICE void add(complex<double> x, complex<double> error, complex<double> y) {
    re.add(x.re, error.re, y.re);
    re.add(-x.im, -error.im, y.im);
    im.add(x.re, error.re, y.im);
    im.add(x.im, error.im, y.re);
  }
  DEVICE complex<double> sum() const { return {re.sum(), im.sum()}; }
};

// The rounding errors of the powers follow them.
DEVICE inline S error_of(const S& cell) { return EXACT ? (&cell)[POWERS * CELLS] : S(); }

// The states of a section depend on those of the sections before it.
DEVICE constexpr int columns_of(int row) { return (row / ORDER + 1) * ORDER; }

// matrix · state + added
constexpr int ROWS_UNROLLED = STATES <= 8 ? 8 : 1;
DEVICE inline State weighed(const S* matrix, const State& state, const State& added) {
  State result;
#pragma unroll(ROWS_UNROLLED)
  for (int i = 0; i < STATES; ++i) {
    Total<S, EXACT> total(added.v[i]);
#pragma unroll(ROWS_UNROLLED)
    for (int j = 0; j < columns_of(i); ++j) {
      const S& cell = matrix[i * STATES + j];
      total.add(cell, error_of(cell), state.v[j]);
    }
    result.v[i] = total.sum();
  }
  return result;
}

// Scan the threads of a warp; `powers` are M^(chunk·1, 2, 4, …) on the first call.
template <int UNROLLED_STEPS = (STATES <= 2 ? 5 : 1)>
DEVICE inline State scanned(State state, int lane, const S* powers) {
#pragma unroll(UNROLLED_STEPS)
  for (int d = 1, k = 0; d < 32; d *= 2, ++k) {
    const State below = from_below(state, d);
    const State joined = weighed(powers + k * CELLS, below, state);
    if (lane >= d) state = joined;
  }
  return state;
}

DEVICE void propagate(S* assumed, const S* carry_outs, const S* powers, long long chunk,
                      const Shape& shape) {
  __shared__ __align__(16) unsigned char memory[WARPS * sizeof(State)];
  State* const totals = reinterpret_cast<State*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long lanes = shape.lanes(), o = blockIdx.x / shape.inner;
  const long long column = blockIdx.x - o * shape.inner;
  const long long left = threadIdx.x * chunk;
  const long long right = left + chunk < shape.segments ? left + chunk : shape.segments;
  const auto index = [&](long long j) { return (o * shape.segments + j) * shape.inner + column; };
  const auto carry_out_of = [&](long long j) {
    State state;
    for (int q = 0; q < STATES; ++q) state.v[q] = carry_outs[q * lanes + index(j)];
    return state;
  };
  State total = {};
#pragma unroll 4
  for (long long j = left; j < right; ++j) total = weighed(powers, total, carry_out_of(j));
  total = scanned(total, lane, powers + CELLS);
  if (lane == 31) totals[warp] = total;
  __syncthreads();
  State before = {};
  if (warp == 0) {
    if (lane < WARPS) before = totals[lane];
    before = scanned(before, lane, powers + 6 * CELLS);
  }
  __syncthreads();
  if (warp == 0 && lane < WARPS) totals[lane] = before;
  __syncthreads();
  State state = {};
  if (warp) state = totals[warp - 1];
#pragma unroll 1
  for (int d = 1, k = 0; d < 32; d *= 2, ++k)
    if (lane & d) state = weighed(powers + (1 + k) * CELLS, state, State());
  const State below = from_below(total, 1);
  for (int q = 0; q < STATES; ++q)
    if (lane) state.v[q] = state.v[q] + below.v[q];
#pragma unroll 4
  for (long long j = left; j < right; ++j) {
    for (int q = 0; q < STATES; ++q) assumed[q * lanes + index(j)] = state.v[q];
    state = weighed(powers, state, carry_out_of(j));
  }
}

// The same for few segments of many rows, one segment after the other. A lane computes one state of a
// row. It loads one row of M, and receives the row's states from its neighbours.
DEVICE void propagate_in_order(S* __restrict__ assumed, const S* __restrict__ carry_outs,
                               const S* matrix, const Shape& shape) {
  const int q = threadIdx.x % STATE_SIZE, first = threadIdx.x - q;
  const long long row = blockIdx.x * (32ll / STATE_SIZE) + threadIdx.x / STATE_SIZE;
  const bool exists = first + STATE_SIZE <= 32 && row < shape.outer * shape.inner;
  const long long o = row / shape.inner, column = row - o * shape.inner;
  long long index = q * shape.lanes() + o * shape.segments * shape.inner + column;
  S matrix_row[STATE_SIZE], errors[STATE_SIZE], state = S();
#pragma unroll
  for (int k = 0; k < STATE_SIZE; ++k) {
    matrix_row[k] = matrix[q * STATE_SIZE + k];
    errors[k] = error_of(matrix[q * STATE_SIZE + k]);
  }
#pragma unroll 8
  for (long long j = 0; j < shape.segments; ++j, index += shape.inner) {
    Total<S, EXACT> total(exists ? carry_outs[index] : S());
    if (exists) assumed[index] = state;
#pragma unroll
    for (int k = 0; k < STATE_SIZE; ++k)
      total.add(matrix_row[k], errors[k], from_lane(state, (first + k) % 32));
    state = total.sum();
  }
}

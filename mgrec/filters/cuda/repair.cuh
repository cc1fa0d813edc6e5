// Repair segments whose lane started from other states than those after the previous segment, or
// whose outputs came near overflow. The warp refilters them, in order, until the states agree. With
// warm-ups both states are advanced, and once they agree the remaining outputs are right.
#pragma once
#include "filters/cuda/lane.cuh"

DEVICE inline double size_of(double x) { return fabs(x); }
template <class R> DEVICE inline double size_of(complex<R> x) {
  return fmax(fabs(double(x.re)), fabs(double(x.im)));
}
DEVICE inline bool is_nan(double x) { return x != x; }
DEVICE inline bool is_nan(complex<double> x) { return x.re != x.re && x.im != x.im; }
DEVICE inline bool are_equal(double x, double y) { return x == y || (x != x && y != y); }
DEVICE inline bool are_equal(complex<double> x, complex<double> y) {
  return are_equal(x.re, y.re) && are_equal(x.im, y.im);
}
DEVICE inline bool is_finite(const State& state) {
  bool finite = true;
#pragma unroll(UNROLLED)
  for (int q = 0; q < STATES; ++q) finite = finite && np_isfinite(size_of(state.v[q]));
  return finite;
}
// Return whether all states are nan. With feedback all further outputs are then nan.
DEVICE inline bool is_lost(const State& state) {
  bool lost = FEEDBACK && STATES > 0;
#pragma unroll(UNROLLED)
  for (int q = 0; q < STATES; ++q) lost = lost && is_nan(state.v[q]);
  return lost;
}

DEVICE inline State state_of(const S* states, long long id, long long lanes) {
  State state;
#pragma unroll(UNROLLED)
  for (int q = 0; q < STATES; ++q) state.v[q] = states[q * lanes + id];
  return state;
}

// Compare each section relative to its own size: small states next to those of another section may
// matter.
DEVICE inline bool differ(const State& assumed, const State& actual, double tolerance,
                          double tiny) {
#pragma unroll(UNROLLED)
  for (int s = 0; s < SECTIONS; ++s) {
    double size = 0, gap = 0;
#pragma unroll(UNROLLED)
    for (int i = 0; i < ORDER; ++i) {
      const S x = assumed.v[s * ORDER + i], y = actual.v[s * ORDER + i];
      if (are_equal(x, y)) continue;
      if (!np_isfinite(size_of(x)) || !np_isfinite(size_of(y))) return true;
      size = fmax(size, fmax(size_of(x), size_of(y)));
      gap = fmax(gap, size_of(x - y));
    }
    if (!(gap <= size * tolerance + tiny)) return true;
  }
  return false;
}

constexpr int NEAR = 512;

struct Limits {
  double tolerance, tiny;
  long long restart;  // filter a row that comes near overflow from its start, rounded as in SciPy
};

struct Repair {
  Arrays arrays;
  const Coefficients& with;
  Shape shape;
  Limits limits;

  DEVICE bool is_top(const Lane& lane) const {
    bool top = false;
    for (int h = 0; h < HALVES; ++h) top = top || arrays.tops[lane.id * HALVES + h];
    return top;
  }
  DEVICE State assumed_state(const Lane& lane) const {
    return state_of(arrays.assumed, lane.id, shape.lanes());
  }
  DEVICE State before(const Lane& lane) const {
    if (lane.segment) return state_of(arrays.carry_outs, lane.id - shape.inner, shape.lanes());
    if (arrays.carry_in) return state_of(arrays.carry_in, lane.row, shape.outer * shape.inner);
    return State();
  }
  DEVICE bool fails(const Lane& lane) const {
    return is_top(lane) || (lane.segment && differ(assumed_state(lane), before(lane),
                                                   limits.tolerance, limits.tiny));
  }
  DEVICE bool is_marked(const Lane& lane) const {
    return shape.segments > 1 ? arrays.marks[lane.id] : is_top(lane);
  }
  DEVICE bool may_fail(long long row) const {
    if (shape.segments > 1) return arrays.failures[row];
    const long long o = row / shape.inner;
    return is_top(Lane(o, row - o * shape.inner, shape));
  }
  DEVICE void check(long long id) const {
    const long long number = id / shape.inner;
    if (number >= shape.outer * shape.segments) return;
    const Lane lane(number, id - number * shape.inner, shape);
    const bool failed = fails(lane);
    arrays.marks[id] = failed;
    if (failed) atomicMax(&arrays.failures[lane.row], int(shape.segments - lane.segment));
  }

  // Filter a segment by a whole warp: each lane loads one sample of 32, and all lanes filter them.
  // Return whether outputs came near overflow. Stop early if `known` says that the remaining outputs
  // are right.
  template <class Step, class Known>
  DEVICE bool walk(const Lane& lane, X* board, Step step, Known known) const {
    const int mine = threadIdx.x;
    int largest = 0;
#pragma unroll 1
    for (long long left = 0; left < lane.high; left += 32) {
      const long long here = lane.first + (left + mine) * shape.stride();
      const int count = lane.high - left < 32 ? int(lane.high - left) : 32;
      if (mine < count) board[mine] = arrays.x[here];
      __syncwarp();
      E output = E();
#pragma unroll 1
      for (int k = 0; k < count; ++k) {
        const E y = step(board[k]);
        largest = max(largest, magnitude(y));
        if (k == mine) output = y;
      }
      __syncwarp();
      if (WRITE && mine < count) arrays.y[here] = cast<Y>(output);
      if (known()) break;
    }
    return largest > TOP;
  }

  DEVICE bool refilter(const Lane& lane, State& state, X* board, bool& agrees) const;
  DEVICE bool walk_plainly(const Lane& lane, State& state, X* board) const;
  DEVICE void store_state(const Lane& lane, const State& state) const {
    __syncwarp();
#pragma unroll(UNROLLED)
    for (int q = 0; q < STATES; ++q) arrays.carry_outs[q * shape.lanes() + lane.id] = state.v[q];
    __syncwarp();
  }

  // Set the remaining outputs and states of a row to nan.
  DEVICE void set_lost(const Lane& from, long long number, const State& state) const {
    const long long end = shape.steps - from.segment * shape.length;
    for (long long k = threadIdx.x; WRITE && k < end; k += 32)
      arrays.y[from.first + k * shape.stride()] = cast<Y>(cast<E>(state.v[0]));
    store_state(Lane(number + shape.segments - 1 - from.segment, from.row % shape.inner, shape),
                state);
  }

  // Return whether one of the next NEAR segments is marked: one by one 33,792 marks took 0.3 ms.
  DEVICE bool is_near(long long number, long long left, long long column) const {
    if (left < NEAR) return true;
    int any_mark = 0;
#pragma unroll
    for (int k = 0; k < NEAR; k += 32)
      any_mark |= arrays.marks[(number + k + threadIdx.x) * shape.inner + column];
    return __any_sync(ALL, any_mark != 0);
  }

  DEVICE void repair_row(long long row, X* board) const {
    const long long o = row / shape.inner, column = row - o * shape.inner;
    bool follows = false, plainly = false;
    long long j = shape.segments > 1 ? shape.segments - arrays.failures[row] : 0;
    while (j < shape.segments) {
      const long long number = o * shape.segments + j;
      if (!follows && !is_near(number, shape.segments - j, column)) {
        j += NEAR;
        continue;
      }
      if (!follows) {  // Find the next marked segment, 32 at a time.
        const Lane other(number + threadIdx.x, column, shape);
        const bool is_next = j + threadIdx.x < shape.segments && is_marked(other);
        const unsigned votes = __ballot_sync(ALL, is_next);
        j += votes ? __ffs(votes) - 1 : 32;
        follows = votes;
        continue;
      }
      const Lane lane(number, column, shape);
      State state = before(lane);
      if (is_lost(state)) return set_lost(lane, number, state);
      bool top = plainly || is_top(lane) || !is_finite(state);
      if (!top && lane.segment &&
          !differ(assumed_state(lane), state, limits.tolerance, limits.tiny)) {
        follows = false;
        ++j;
        continue;
      }
      bool agrees = false;
      top = top || refilter(lane, state, board, agrees);
      if (top && limits.restart && !plainly) {
        plainly = true;
        j = 0;
        continue;
      }
      if (top) {
        state = before(lane);
        walk_plainly(lane, state, board);
      }
      if (top || !agrees) store_state(lane, state);
      ++j;
    }
  }
};

// SciPy's order of operations in the dtype of the outputs, which decides what overflows.
template <class C> struct PlainState { C v[STATE_SIZE]; };

template <class R> DEVICE inline complex<R> product(complex<R> x, complex<R> y) {
  return {sum(product(x.re, y.re), -product(x.im, y.im)), sum(product(x.re, y.im), product(x.im, y.re))};
}
template <class R> DEVICE inline complex<R> sum(complex<R> x, complex<R> y) {
  return {sum(x.re, y.re), sum(x.im, y.im)};
}

// Coefficients a are negated, so that each difference is a sum.
template <class C>
DEVICE inline C advance_plainly(const Coefficients& with, PlainState<C>& state, C value) {
#pragma unroll 1
  for (int s = 0; s < SECTIONS; ++s) {
    const C x = value, b0 = cast<C>(with.b[s][0]);
    if (ORDER == 0) {
      value = product(x, b0);
      continue;
    }
    value = sum(state.v[s * ORDER], product(b0, x));
#pragma unroll 1
    for (int i = 0; i < ORDER; ++i) {
      const int at = s * ORDER + i;
      const C fed = product(x, cast<C>(with.b[s][i + 1]));
      const C back = product(value, cast<C>(with.a[s][i + 1]));
      const bool last = i + 1 == ORDER;
      const C after = state.v[last ? at : at + 1];
      if (!FEEDBACK) state.v[at] = last ? fed : sum(after, fed);
      else if (last) state.v[at] = sum(fed, back);
      else if (SECTIONS > 1) state.v[at] = sum(sum(fed, back), after);
      else state.v[at] = sum(sum(after, fed), back);
    }
  }
  return value;
}

DEVICE bool Repair::refilter(const Lane& lane, State& state, X* board, bool& agrees) const {
  const bool has_warm_up = shape.warm && lane.segment;
  State other = has_warm_up ? assumed_state(lane) : state;
  const auto step = [&](X input) {
    const E x = cast<E>(input);
    if (has_warm_up) advance(with, other, cast<S>(x));
    return cast<E>(advance(with, state, cast<S>(x)));
  };
  const auto known = [&] {
    return agrees = has_warm_up && !differ(other, state, limits.tolerance, limits.tiny);
  };
  return walk(lane, board, step, known);
}

DEVICE bool Repair::walk_plainly(const Lane& lane, State& state, X* board) const {
  PlainState<E> plain;
  for (int q = 0; q < STATES; ++q) plain.v[q] = cast<E>(state.v[q]);
  const auto step = [&](X x) { return advance_plainly<E>(with, plain, cast<E>(x)); };
  const bool top = walk(lane, board, step, [] { return false; });
  for (int q = 0; q < STATES; ++q) state.v[q] = cast<S>(plain.v[q]);
  return top;
}

extern "C" __global__ void __launch_bounds__(128) check_kernel(
    const Arrays arrays, const Argument<BY_VALUE> with, const Shape shape, const Limits limits) {
  const Repair repair = {arrays, with.get(), shape, limits};
  repair.check(blockIdx.x * (long long)blockDim.x + threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(32) repair_kernel(
    const Arrays arrays, const Argument<BY_VALUE> with, const Shape shape, const Limits limits) {
  const Repair repair = {arrays, with.get(), shape, limits};
  __shared__ __align__(16) unsigned char memory[32 * sizeof(X)];
  const long long rows = shape.outer * shape.inner;
  for (long long base = blockIdx.x * 32ll; base < rows; base += gridDim.x * 32ll) {
    const long long row = base + threadIdx.x;
    unsigned votes = __ballot_sync(ALL, row < rows && repair.may_fail(row));
    for (; votes; votes &= votes - 1)
      repair.repair_row(base + __ffs(votes) - 1, reinterpret_cast<X*>(memory));
  }
}

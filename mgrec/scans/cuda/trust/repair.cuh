// Repair: solve the marked rows, a block for each row, from the first mark until nothing changes.
//
// A row goes in stretches of THREADS × ITEMS steps. Threads with valid maps work side by side as in
// the single pass; from the first thread with a suspect carry-in on, they work one after the other.
// After ±inf real states are ±inf or nan to the end: then a step is a map of three values, which
// composes exactly. If a state comes near overflow although operands are finite, the row is solved
// from its start, step by step: rounding may decide what the loop does. So are rows of vectors.
#pragma once
#include "scans/cuda/trust/guard.cuh"

constexpr int STRETCH = THREADS * ITEMS;
typedef Stored* const (&Results)[Transfer::STATES];

// A row and its steps in time.
struct Row {
  long long outer, inner, outers, steps, inners;
  DEVICE long long element(long long time) const {
    return (outer * steps + (REVERSE ? steps - 1 - time : time)) * inners + inner;
  }
};

// The steps of a thread in a stretch.
struct ThreadSteps {
  Items items;
  long long time;
  int count;
};

DEVICE inline void load_steps(const Source& source, const Row& row, long long time,
                              ThreadSteps& thread_steps) {
  const long long left = row.steps - time, first = REVERSE ? left - ITEMS : time;
  thread_steps.time = time;
  thread_steps.count = left < 0 ? 0 : left < ITEMS ? int(left) : ITEMS;
  thread_steps.items.step = first;
  if (thread_steps.count == 0) return;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (first + r >= 0 && first + r < row.steps)
#pragma unroll
      for (int p = 0; p < Source::STREAMS; ++p)
        thread_steps.items.v[p][r] = cast<T>(
            source.stream[p][((row.outer * row.steps + first + r) * row.inners + row.inner) *
                             Source::width(p)]);
  source.complete(thread_steps.items, row.outer, first, row.inner, row.outers, row.steps);
  source.lift_items(thread_steps.items);
}

// Calls visit(map, time) for every existing step.
template <class Visit>
DEVICE inline void visit_steps(const Source& source, const ThreadSteps& thread_steps, Visit visit) {
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    if (k < thread_steps.count)
      visit(source.map(thread_steps.items, REVERSE ? ITEMS - 1 - k : k), thread_steps.time + k);
}

// The number of a result in its array.
DEVICE inline long long number_of(long long element) {
  return PACKED ? element * Transfer::STATES : element;
}
DEVICE inline void write_state(Results results, long long element, const Transfer::State& state) {
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q)
    results[q][number_of(element)] = cast<Stored>(state.v[q]);
}

// Sets `has_grown` if a state comes near overflow although operands are finite.
DEVICE inline Transfer::State walk(const Source& source, const ThreadSteps& thread_steps,
                                   const Row& row, Transfer::State state, Results results,
                                   int& has_grown) {
  visit_steps(source, thread_steps, [&](const Transfer::Map& map, long long time) {
    const Transfer::State before = state;
    state = Transfer::apply(map, state);
    if (grows(map, before, state)) has_grown = 1;
    write_state(results, row.element(time), state);
  });
  return state;
}

// Whether a state that is not finite is +inf, -inf or nan.
constexpr bool HAS_SIGNS = is_real<T>::value && Transfer::STATES == 1;

// The states after a run of steps from +inf and from -inf, two bits each: 0 is +inf, 1 -inf, 2 nan.
template <class Real> DEVICE inline unsigned code_of(Real x) { return x != x ? 2 : x > T(0) ? 0 : 1; }
template <class Real> DEVICE inline Real value_of(unsigned code) {
  return code == 2 ? not_a_number<Real>() : code == 1 ? -infinity<Real>() : infinity<Real>();
}
DEVICE inline unsigned signs_after(unsigned earlier, unsigned later) {
  const unsigned plus = earlier & 3, minus = earlier >> 2;
  return (plus == 2 ? 2 : later >> 2 * plus & 3) | (minus == 2 ? 2 : later >> 2 * minus & 3) << 2;
}
constexpr unsigned NO_CHANGE = 0 | 1 << 2;

template <class Real>
DEVICE inline unsigned signs_of(const Source& source, const ThreadSteps& thread_steps) {
  Transfer::State plus = {infinity<Real>()}, minus = {-infinity<Real>()};
  visit_steps(source, thread_steps, [&](const Transfer::Map& map, long long) {
    plus = Transfer::apply(map, plus);
    minus = Transfer::apply(map, minus);
  });
  return code_of<Real>(plus.v[0]) | code_of<Real>(minus.v[0]) << 2;
}

DEVICE inline unsigned scan_signs(unsigned signs, int width = 32) {
  const int lane = threadIdx.x % 32;
  for (int distance = 1; distance < width; distance *= 2) {
    const unsigned below = __shfl_up_sync(ALL, signs, distance);
    if (lane >= distance) signs = signs_after(below, signs);
  }
  return signs;
}

// The states after all earlier threads of the block from ±inf.
DEVICE inline unsigned signs_before(unsigned signs, unsigned (&totals)[WARPS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned inclusive = scan_signs(signs);
  if (lane == 31) totals[warp] = inclusive;
  synchronize();
  const unsigned warps = scan_signs(lane < WARPS ? totals[lane] : NO_CHANGE, WARPS);
  const unsigned earlier = __shfl_sync(ALL, warps, warp > 0 ? warp - 1 : 0);
  unsigned before = __shfl_up_sync(ALL, inclusive, 1);
  if (lane == 0) before = NO_CHANGE;
  return warp > 0 ? signs_after(earlier, before) : before;
}

struct BlockState {  // of a block, in shared memory
  Span totals[WARPS];
  unsigned signs[WARPS];
  int untrusted;  // the first thread with a suspect carry-in
  int has_grown;  // whether a state of the row comes near overflow although operands are finite
  long long next;  // the first unsolved step
  Transfer::State state;
};

// Solves the steps of the threads from `first` on, one thread after the other, until real states
// are not finite: then threads work side by side again. `block.state` is the state before, then
// after them.
DEVICE inline void relay(const Source& source, const ThreadSteps& thread_steps, const Row& row,
                         Results results, int first, BlockState& block) {
  const int lane = threadIdx.x % 32;
  // Volatile: the compiler would load it before the test of the warp, while another warp writes it.
  const volatile long long& next = block.next;
  for (int warp = first / 32; warp < WARPS; ++warp) {
    synchronize();
    if (threadIdx.x / 32 != warp || next < thread_steps.time - lane * ITEMS) continue;
    Span state = span_of(block.state);
    int active_lane = warp == first / 32 ? first % 32 : 0;
    for (bool ended = false; active_lane < 32 && !ended; ++active_lane) {
      if (lane == active_lane)
        state = span_of(walk(source, thread_steps, row, state_of(state), results, block.has_grown));
      state = from_lane(state, active_lane);
      ended = HAS_SIGNS && !is_finite(state_of(state));
    }
    __syncwarp();
    if (lane == active_lane - 1)
      block.state = state_of(state), block.next = thread_steps.time + thread_steps.count;
  }
}

DEVICE inline void repair_finite(const Source& source, const ThreadSteps& thread_steps,
                                 const Row& row, const Transfer::State& carry_in, Results results,
                                 BlockState& block) {
  Span mine = empty_span();
  visit_steps(source, thread_steps, [&](const Transfer::Map& map, long long) {
    mine = mine.kind == EMPTY ? span_of(map) : span_of(compose(map_of(mine), map));
  });
  const int thread = threadIdx.x;
  if (thread == 0) block.untrusted = THREADS;
  const Span before = block_scan(mine, block.totals).before;
  Transfer::State state = after(before, carry_in);
  if (thread > 0 && thread_steps.count > 0 &&
      (!is_in_range(state) || is_suspect(before, carry_in, state)))
    atomicMin(&block.untrusted, thread);
  synchronize();
  const bool is_trusted = thread < block.untrusted;
  if (is_trusted) state = walk(source, thread_steps, row, state, results, block.has_grown);
  synchronize();
  if (is_trusted && !is_in_range(state)) atomicMin(&block.untrusted, thread + 1);
  synchronize();
  const int first = block.untrusted;
  if (thread == first - 1) block.state = state;
  if (first < THREADS) relay(source, thread_steps, row, results, first, block);
}

template <class Real>
DEVICE inline void repair_infinite(const Source& source, const ThreadSteps& thread_steps,
                                   const Row& row, const Transfer::State& carry_in, Results results,
                                   BlockState& block) {
  const unsigned before = signs_before(signs_of<Real>(source, thread_steps), block.signs);
  Transfer::State state = {value_of<Real>(before >> 2 * code_of<Real>(carry_in.v[0]) & 3)};
  state = walk(source, thread_steps, row, state, results, block.has_grown);
  if (threadIdx.x == THREADS - 1) block.state = state;
}

// Returns whether states are equal up to rounding: then so are all later ones.
DEVICE inline bool agree(T x, T y) {
  const auto error = size_of(np_subtract(x, y)), size = size_of(x);
  return x == y || (is_nan(x) && is_nan(y)) || error < (sizeof(size) == 4 ? 5e-7 : 1e-15) * size;
}

// Solves a stretch, or its first part, from `state`, and moves `state` and `time` to its end. Returns
// whether the stretch is solved and its old result agrees.
DEVICE inline bool repair_stretch(const Source& source, const Row& row, long long& time,
                                  bool by_loop, Transfer::State& state, Results results,
                                  BlockState& block) {
  const long long end = time + STRETCH < row.steps ? time + STRETCH : row.steps;
  const T old = cast<T>(results[0][number_of(row.element(end - 1))]);
  const long long mine = time + threadIdx.x * ITEMS;
  time += STRETCH;
  synchronize();
  bool is_all_nan = true;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) is_all_nan = is_all_nan && is_nan(state.v[q]);
  if (is_all_nan) {  // as every later state
    for (long long k = mine; k < mine + ITEMS && k < end; ++k)
      write_state(results, row.element(k), state);
    return is_nan(old);
  }
  if (threadIdx.x == 0) block.next = time;
  ThreadSteps thread_steps;
  load_steps(source, row, mine, thread_steps);
  if (is_finite(state) && !by_loop) {
    repair_finite(source, thread_steps, row, state, results, block);
  } else if (is_finite(state) || !HAS_SIGNS) {
    if (threadIdx.x == 0) block.state = state;
    relay(source, thread_steps, row, results, 0, block);
  } else if constexpr (HAS_SIGNS) {
    repair_infinite<T>(source, thread_steps, row, state, results, block);
  }
  synchronize();
  state = block.state;
  time = block.next;
  return time >= end && agree(state.v[0], old);
}

DEVICE void repair_rows(const Source& source, const Entry& carry_ins,
                        Results results, const Marks* marks,
                        long long outers, long long steps, long long inners, unsigned epoch) {
  if (marks->first >> TILE_BITS != epoch) return;
  __shared__ BlockState block;
  const long long first = TILE_MASK - (marks->first & TILE_MASK), last = marks->last & TILE_MASK;
  const int width = inners > 1 ? 32 : 1;  // rows with common marks
  const long long count = outers * inners, whole = (last + 1) * width;
  const long long end = whole < count ? whole : count;
  for (long long row = first * width + blockIdx.x; row < end; row += gridDim.x) {
    const Marks mine = marks[1 + row / width];
    if (mine.first >> TILE_BITS != epoch) continue;
    const Row position = {row / inners, row % inners, outers, steps, inners};
    // States are not read from rounded results.
    constexpr bool BY_LOOP = Transfer::STATES > 1, WHOLE = BY_LOOP || sizeof(Stored) < sizeof(T);
    long long time = WHOLE ? 0 : TILE_MASK - (mine.first & TILE_MASK);
    long long settled = WHOLE ? steps : (mine.last & TILE_MASK) + 1;
    Transfer::State state = carry_ins.at(row);
    if (time > 0) state.v[0] = cast<T>(results[0][number_of(position.element(time - 1))]);
    bool by_loop = BY_LOOP;
    synchronize();
    if (threadIdx.x == 0) block.has_grown = 0;
    for (bool same = false; time < steps && !(same && time >= settled);) {
      same = repair_stretch(source, position, time, by_loop, state, results, block);
      if (block.has_grown && !by_loop) {
        by_loop = true;
        time = 0;
        settled = steps;
        state = carry_ins.at(row);
      }
    }
  }
}

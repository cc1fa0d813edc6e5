// Repair: solve the marked rows, a block for each row, from the first mark until nothing changes.
//
// A row goes in stretches of THREADS × ITEMS steps. Threads with valid maps work side by side as in
// the single pass; from the first thread with a suspect carry-in on, they work one after the other.
// After ±inf real states are ±inf or nan to the end: then a step is a map of three values, which
// composes exactly. If a state comes near overflow although operands are finite, the row is solved
// from its start, step by step: rounding may decide what the loop does.
#pragma once
#include "scans/cuda/trust/guard.cuh"

constexpr int STRETCH = THREADS * ITEMS;

// A row and its steps in time.
struct Line {
  long long outer, inner, outers, steps, inners;
  DEVICE long long element(long long time) const {
    return (outer * steps + (REVERSE ? steps - 1 - time : time)) * inners + inner;
  }
};

// The steps of a thread in a stretch.
struct Run {
  Items items;
  long long time;
  int count;
};

DEVICE inline void load_run(const Source& source, const Line& line, long long time, Run& run) {
  const long long left = line.steps - time, first = REVERSE ? left - ITEMS : time;
  run.time = time;
  run.count = left < 0 ? 0 : left < ITEMS ? int(left) : ITEMS;
  run.items.step = first;
  if (run.count == 0) return;
#pragma unroll
  for (int r = 0; r < ITEMS; ++r)
    if (first + r >= 0 && first + r < line.steps)
#pragma unroll
      for (int p = 0; p < Source::STREAMS; ++p)
        run.items.v[p][r] = cast<T>(
            source.stream[p][(line.outer * line.steps + first + r) * line.inners + line.inner]);
  source.complete(run.items, line.outer, first, line.inner, line.outers, line.steps);
  source.lift_items(run.items);
}

// Calls visit(map, time) for every existing step.
template <class Visit>
DEVICE inline void visit_steps(const Source& source, const Run& run, Visit visit) {
#pragma unroll
  for (int k = 0; k < ITEMS; ++k)
    if (k < run.count) visit(source.map(run.items, REVERSE ? ITEMS - 1 - k : k), run.time + k);
}

// Sets `has_grown` if a state comes near overflow although operands are finite.
DEVICE inline Transfer::State walk(const Source& source, const Run& run, const Line& line,
                                   Transfer::State state, Stored* result, int& has_grown) {
  visit_steps(source, run, [&](const Transfer::Map& map, long long time) {
    const Transfer::State before = state;
    state = Transfer::apply(map, state);
    if (grows(map, before, state)) has_grown = 1;
    result[line.element(time)] = cast<Stored>(state.v[0]);
  });
  return state;
}

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

template <class Real> DEVICE inline unsigned signs_of(const Source& source, const Run& run) {
  Transfer::State plus = {infinity<Real>()}, minus = {-infinity<Real>()};
  visit_steps(source, run, [&](const Transfer::Map& map, long long) {
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

struct Desk {  // of a block, in shared memory
  Span totals[WARPS];
  unsigned signs[WARPS];
  int untrusted;  // the first thread with a suspect carry-in
  int has_grown;  // whether a state of the row comes near overflow although operands are finite
  long long next;  // the first unsolved step
  Transfer::State state;
};

// Solves the steps of the threads from `first` on, one thread after the other, until real states are
// not finite: then threads work side by side again. `desk.state` is the state before, then after them.
DEVICE inline void relay(const Source& source, const Run& run, const Line& line, Stored* result,
                         int first, Desk& desk) {
  const int lane = threadIdx.x % 32;
  // Volatile: the compiler would load it before the test of the warp, while another warp writes it.
  const volatile long long& next = desk.next;
  for (int warp = first / 32; warp < WARPS; ++warp) {
    synchronize();
    if (threadIdx.x / 32 != warp || next < run.time - lane * ITEMS) continue;
    Span state = span_of(desk.state);
    int turn = warp == first / 32 ? first % 32 : 0;
    for (bool ended = false; turn < 32 && !ended; ++turn) {
      if (lane == turn)
        state = span_of(walk(source, run, line, state_of(state), result, desk.has_grown));
      state = from_lane(state, turn);
      ended = is_real<T>::value && !is_finite(state_of(state));
    }
    __syncwarp();
    if (lane == turn - 1) desk.state = state_of(state), desk.next = run.time + run.count;
  }
}

DEVICE inline void repair_finite(const Source& source, const Run& run, const Line& line,
                                 const Transfer::State& entry, Stored* result, Desk& desk) {
  Span mine = empty_span();
  visit_steps(source, run, [&](const Transfer::Map& map, long long) {
    mine = mine.kind == EMPTY ? span_of(map) : span_of(compose(map_of(mine), map));
  });
  const int thread = threadIdx.x;
  if (thread == 0) desk.untrusted = THREADS;
  const Span before = block_scan(mine, desk.totals).before;
  Transfer::State state = after(before, entry);
  if (thread > 0 && run.count > 0 &&
      (!is_moderate(state) || is_doubtful(before, entry, state)))
    atomicMin(&desk.untrusted, thread);
  synchronize();
  const bool is_trusted = thread < desk.untrusted;
  if (is_trusted) state = walk(source, run, line, state, result, desk.has_grown);
  synchronize();
  if (is_trusted && !is_moderate(state)) atomicMin(&desk.untrusted, thread + 1);
  synchronize();
  const int first = desk.untrusted;
  if (thread == first - 1) desk.state = state;
  if (first < THREADS) relay(source, run, line, result, first, desk);
}

template <class Real>
DEVICE inline void repair_infinite(const Source& source, const Run& run, const Line& line,
                                   const Transfer::State& entry, Stored* result, Desk& desk) {
  const unsigned before = signs_before(signs_of<Real>(source, run), desk.signs);
  Transfer::State state = {value_of<Real>(before >> 2 * code_of<Real>(entry.v[0]) & 3)};
  state = walk(source, run, line, state, result, desk.has_grown);
  if (threadIdx.x == THREADS - 1) desk.state = state;
}

// Returns whether states are equal up to rounding: then so are all later ones.
DEVICE inline bool agree(T x, T y) {
  const auto error = size_of(np_subtract(x, y)), size = size_of(x);
  return x == y || (is_nan(x) && is_nan(y)) || error < (sizeof(size) == 4 ? 5e-7 : 1e-15) * size;
}

// Solves a stretch, or its first part, from `state`, and moves `state` and `time` to its end. Returns
// whether the stretch is solved and its old result agrees.
DEVICE inline bool repair_stretch(const Source& source, const Line& line, long long& time,
                                  bool by_loop, Transfer::State& state, Stored* result, Desk& desk) {
  const long long end = time + STRETCH < line.steps ? time + STRETCH : line.steps;
  const T old = cast<T>(result[line.element(end - 1)]);
  const long long mine = time + threadIdx.x * ITEMS;
  time += STRETCH;
  synchronize();
  if (is_nan(state.v[0])) {  // as every later state
    for (long long k = mine; k < mine + ITEMS && k < end; ++k)
      result[line.element(k)] = cast<Stored>(state.v[0]);
    return is_nan(old);
  }
  if (threadIdx.x == 0) desk.next = time;
  Run run;
  load_run(source, line, mine, run);
  if (is_finite(state) && !by_loop) {
    repair_finite(source, run, line, state, result, desk);
  } else if (is_finite(state) || !is_real<T>::value) {
    if (threadIdx.x == 0) desk.state = state;
    relay(source, run, line, result, 0, desk);
  } else if constexpr (is_real<T>::value) {
    repair_infinite<T>(source, run, line, state, result, desk);
  }
  synchronize();
  state = desk.state;
  time = desk.next;
  return time >= end && agree(state.v[0], old);
}

DEVICE void repair_rows(const Source& source, const Entry& entry,
                        Stored* const (&results)[Transfer::STATES], const Marks* marks,
                        long long outers, long long steps, long long inners, unsigned epoch) {
  if (marks->first >> TILE_BITS != epoch) return;
  __shared__ Desk desk;
  const long long first = TILE_MASK - (marks->first & TILE_MASK), last = marks->last & TILE_MASK;
  const int width = inners > 1 ? 32 : 1;  // rows with common marks
  const long long count = outers * inners, whole = (last + 1) * width;
  const long long end = whole < count ? whole : count;
  for (long long row = first * width + blockIdx.x; row < end; row += gridDim.x) {
    const Marks mine = marks[1 + row / width];
    if (mine.first >> TILE_BITS != epoch) continue;
    const Line line = {row / inners, row % inners, outers, steps, inners};
    // States are not read from rounded results.
    constexpr bool ROUNDED = sizeof(Stored) < sizeof(T);
    long long time = ROUNDED ? 0 : TILE_MASK - (mine.first & TILE_MASK);
    long long settled = ROUNDED ? steps : (mine.last & TILE_MASK) + 1;
    Transfer::State state = entry.at(row);
    if (time > 0) state.v[0] = cast<T>(results[0][line.element(time - 1)]);
    bool by_loop = false;
    synchronize();
    if (threadIdx.x == 0) desk.has_grown = 0;
    for (bool same = false; time < steps && !(same && time >= settled);) {
      same = repair_stretch(source, line, time, by_loop, state, results[0], desk);
      if (desk.has_grown && !by_loop) {
        by_loop = true;
        time = 0;
        settled = steps;
        state = entry.at(row);
      }
    }
  }
}

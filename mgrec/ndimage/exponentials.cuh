// Sums of exponentials along the lines of an array (outer, steps, inner), in three launches:
//
// 1. `summarize`: the states of each segment at its ends, from its own samples;
// 2. `propagate`: the states before and after each segment, from those of all segments of the line
//    and from its borders;
// 3. `filter`: the results of each segment.
//
// A thread has a run of RUN samples in registers. It computes their recurrences from states of 0,
// and then adds the states before and after its run times powers of the poles. A segment of a row is
// the runs of a warp. A segment of columns is the runs of a block, whose lanes have neighbouring
// lines. All states are doubles, and complex for complex poles.
#pragma once
#include "ndimage/results.cuh"

constexpr unsigned ALL = 0xffffffff;

// States before and after samples: Σ p^j·x over those before, or after, and the nearest one first.
struct States { S before, after; };
struct Arrays {
  const X* x;
  E* y;
  States* states;  // (lines, POLES, segments): of segments, then before and after segments
  const complex<double>* left;  // (outer, POLES, inner): states before and after lines, or null
  const complex<double>* right;
};
struct Shape { long long lines, steps, inner, segments; };
struct Weights {
  double middle;
  double half_tap[RUN];  // of the kernel at distances from 0
  S pole[POLES], beside[POLES];  // and the weight of a state in the results beside it
  S power[POLES][RUN + 1];
  S even_power[POLES][RUN / 2], odd_power[POLES][RUN / 2];
  S doubled[POLES][5];  // pole^(RUN·1, 2, 4, 8, 16)
};
// A state beyond a border: a sum of the states of the line, of its end samples and of a constant.
struct Border { S after, before, first, last, constant; };
struct Borders {
  double constant[2];  // of even and odd lines: real and imaginary part
  S segment[POLES], last_segment[POLES];  // pole^length
  Border left[POLES], right[POLES];
};

DEVICE inline double real_part(double x) { return x; }
DEVICE inline double real_part(complex<double> x) { return x.re; }
DEVICE inline double to_state(complex<double> x, double) { return x.re; }
DEVICE inline complex<double> to_state(complex<double> x, complex<double>) { return x; }
// p·state + x
DEVICE inline double advance(double p, double state, double x) { return fma(p, state, x); }
DEVICE inline complex<double> advance(complex<double> p, complex<double> state, double x) {
  return {fma(p.re, state.re, fma(-p.im, state.im, x)), fma(p.re, state.im, p.im * state.re)};
}
DEVICE inline complex<double> advance(complex<double> p, complex<double> state, complex<double> x) {
  return {fma(p.re, state.re, fma(-p.im, state.im, x.re)),
          fma(p.re, state.im, fma(p.im, state.re, x.im))};
}
// sum + p·x
DEVICE inline double add_product(double p, double x, double sum) { return fma(p, x, sum); }
DEVICE inline complex<double> add_product(complex<double> p, double x, complex<double> sum) {
  return {fma(p.re, x, sum.re), fma(p.im, x, sum.im)};
}
// sum + Re(w·state)
DEVICE inline double add_real(double w, double state, double sum) { return fma(w, state, sum); }
DEVICE inline double add_real(complex<double> w, complex<double> state, double sum) {
  return fma(w.re, state.re, fma(-w.im, state.im, sum));
}
DEVICE inline double subtract_real(double w, double state, double sum) { return fma(-w, state, sum); }
DEVICE inline double subtract_real(complex<double> w, complex<double> state, double sum) {
  return fma(-w.re, state.re, fma(w.im, state.im, sum));
}
DEVICE inline double add_after(S w, S state, double sum) {
  return ODD ? subtract_real(w, state, sum) : add_real(w, state, sum);
}
DEVICE inline double from_lane(double x, int lane) { return __shfl_sync(ALL, x, lane); }
DEVICE inline complex<double> from_lane(complex<double> x, int lane) {
  return {__shfl_sync(ALL, x.re, lane), __shfl_sync(ALL, x.im, lane)};
}
DEVICE inline bool is_finite(double x) { return fabs(x) < infinity<double>(); }
DEVICE inline bool is_finite(complex<double> x) { return is_finite(x.re) && is_finite(x.im); }

// A run of samples, and what is added up for its results.
//
// Runs of complex poles are split into the parts that are even and odd about their middle: their
// states, and what a state adds to the results, are sums over half as many products. Results of the
// samples of the run itself are sums over the taps of the kernel, for all poles at once. That takes
// 32 products a sample for the 4 poles of a Gaussian; recurrences take 64.
//
// Loops over a run have one index. The compiler did not unroll those with an index from each end, and
// the run was then in local memory: 4.6 ms in place of 1.9 ms for 16,384 x 16,384 float32 on an H200.
struct Run {
  double x[RUN], sum[RUN];
  int count;  // its samples: RUN unless the line ends in it

  template <bool WRITE> DEVICE void begin(const Weights& with) {
    if (!IS_SPLIT) {
      if (WRITE) begin_partly(with);
      return;
    }
#pragma unroll
    for (int i = 0; WRITE && i < RUN; ++i) {
      sum[i] = with.half_tap[0] * x[i];
#pragma unroll
      for (int j = 0; j < RUN; ++j) {
        if (j < i) sum[i] = fma(with.half_tap[i - j], x[j], sum[i]);
        if (j > i) sum[i] = fma(ODD ? -with.half_tap[j - i] : with.half_tap[j - i], x[j], sum[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < RUN / 2; ++i) {
      split(x[i], x[RUN - 1 - i]);
      if (WRITE) split(sum[i], sum[RUN - 1 - i]);
    }
  }
  DEVICE static void split(double& first, double& last) {
    const double even = first + last;
    last = first - last;
    first = even;
  }
  DEVICE void begin_partly(const Weights& with) {
#pragma unroll
    for (int i = 0; i < RUN; ++i) sum[i] = with.middle * x[i];
  }
  // Advance both states of a pole from 0 through a whole run.
  template <bool WRITE> DEVICE void walk_whole(const Weights& with, int k, S& before, S& after) {
    before = after = S(0.0);
    if (!IS_SPLIT) return walk<true, WRITE>(with, k, before, after);
    S even = S(0.0), odd = S(0.0);
#pragma unroll
    for (int j = 0; j < RUN / 2; ++j) {
      even = add_product(with.even_power[k][j], x[j], even);
      odd = add_product(with.odd_power[k][j], x[RUN - 1 - j], odd);
    }
    before = even - odd;
    after = even + odd;
  }
  // Advance both states of a pole through the run; if WRITE, add them to the results.
  template <bool FULL, bool WRITE> DEVICE void walk(const Weights& with, int k, S& before, S& after) {
    const S pole = with.pole[k], weight = with.beside[k];
#pragma unroll
    for (int i = 0, j = RUN - 1; i < RUN; ++i, --j) {
      if (FULL || i < count) {
        if (WRITE) sum[i] = add_real(weight, before, sum[i]);
        before = advance(pole, before, x[i]);
      }
      if (FULL || j < count) {
        if (WRITE) sum[j] = add_after(weight, after, sum[j]);
        after = advance(pole, after, x[j]);
      }
    }
  }
  // Add the states before the run and after it.
  template <bool FULL> DEVICE void add(const Weights& with, int k, S before, S after) {
    before = with.beside[k] * before;
    after = with.beside[k] * after;
    if (FULL && IS_SPLIT) {
      if (ODD) after = S(0.0) - after;
      const S plus = before + after, minus = before - after;
#pragma unroll
      for (int i = 0; i < RUN / 2; ++i) {
        sum[i] = add_real(with.even_power[k][i], plus, sum[i]);
        sum[RUN - 1 - i] = add_real(with.odd_power[k][i], minus, sum[RUN - 1 - i]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      sum[i] = add_real(with.power[k][i], before, sum[i]);
      sum[i] = add_after(with.power[k][RUN - 1 - i], after, sum[i]);
    }
  }
  DEVICE void end() {
#pragma unroll
    for (int i = 0; IS_SPLIT && i < RUN / 2; ++i) split(sum[i], sum[RUN - 1 - i]);
  }
};

// The states of a segment, of which this thread has the first or the last run, from those of the run
// and those beside it.
DEVICE inline void write_states(States* states, const Weights& with, int k, const Run& run,
                                bool is_first, bool is_last, const States& own, S before, S after) {
  if (is_last) states->before = advance(with.power[k][run.count], before, own.before);
  if (is_first) states->after = advance(with.power[k][run.count], after, own.after);
}

// A run's states, and in exchange those before and after it: of the lanes of a warp, and at the ends
// those of the segment.
DEVICE inline void exchange_lanes(const Weights& with, int k, int lane, const States& ends, S& before,
                                  S& after) {
#pragma unroll
  for (int d = 1, j = 0; d < 32; d *= 2, ++j) {
    const S earlier = from_lane(before, lane - d & 31), later = from_lane(after, lane + d & 31);
    if (lane >= d) before = advance(with.doubled[k][j], earlier, before);
    if (lane + d < 32) after = advance(with.doubled[k][j], later, after);
  }
  const S earlier = from_lane(before, lane - 1 & 31), later = from_lane(after, lane + 1 & 31);
  before = lane > 0 ? earlier : ends.before;
  after = lane < 31 ? later : ends.after;
}

// The states of a segment from those of the runs of a warp. Lanes exchange half of their numbers at a
// time, and add up the other half: 9 complex numbers for 4 poles in place of 40.
DEVICE inline void reduce_lanes(const Weights& with, int lane, S (&number)[2 * POLES], States* states,
                                long long stride) {
  int first = 0, count = 2 * POLES;  // of this lane's numbers: before and after for each pole
#pragma unroll
  for (int d = 16, j = 4; d > 0; d /= 2, --j) {
    const bool is_upper = lane & d;
    const int half = count / 2;
    if (half > 0) {
      first += is_upper ? half : 0;
      count = half;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const S kept = half > 0 && is_upper ? number[half + i] : number[i];
      const S sent = half > 0 && !is_upper ? number[half + i] : number[i];
      const S received = from_lane(sent, lane ^ d);
      const S lower = is_upper ? received : kept, upper = is_upper ? kept : received;
      const bool is_after = (first + i) % 2;
      number[i] = advance(with.doubled[(first + i) / 2][j], is_after ? upper : lower,
                          is_after ? lower : upper);
    }
  }
  if (lane % (16 / POLES) > 0) return;
  States* const to = states + first / 2 * stride;
  (first % 2 ? to->after : to->before) = number[0];
}

DEVICE inline void summarize_row(const Weights& with, Run& run, int lane, States* states,
                                 long long stride) {
  S number[2 * POLES];
  run.begin<false>(with);
#pragma unroll
  for (int k = 0; k < POLES; ++k) run.walk_whole<false>(with, k, number[2 * k], number[2 * k + 1]);
  reduce_lanes(with, lane, number, states, stride);
}

DEVICE inline void filter_row(const Weights& with, Run& run, int lane, const States* states,
                              long long stride) {
  run.begin<true>(with);
#pragma unroll
  for (int k = 0; k < POLES; ++k, states += stride) {
    S before, after;
    run.walk_whole<true>(with, k, before, after);
    States ends = {S(0.0), S(0.0)};
    if (lane == 0) {
      ends.before = states->before;
      before = advance(with.power[k][RUN], ends.before, before);
    }
    if (lane == 31) {
      ends.after = states->after;
      after = advance(with.power[k][RUN], ends.after, after);
    }
    exchange_lanes(with, k, lane, ends, before, after);
    run.add<true>(with, k, before, after);
  }
  run.end();
}

// The segment in which the line ends. Recurrences begin with the states beside it, since its last run
// has fewer samples.
template <bool WRITE>
DEVICE inline void end_row(const Weights& with, Run& run, int lane, bool is_last, States* states,
                           long long stride) {
  if (WRITE) run.begin_partly(with);
#pragma unroll
  for (int k = 0; k < POLES; ++k, states += stride) {
    States own = {S(0.0), S(0.0)};
    if (WRITE && lane == 0) own.before = states->before;
    if (WRITE && is_last) own.after = states->after;
    run.walk<false, WRITE>(with, k, own.before, own.after);
    S before = own.before, after = own.after;
    exchange_lanes(with, k, lane, {S(0.0), S(0.0)}, before, after);
    if (WRITE) run.add<false>(with, k, before, after);
    else write_states(states, with, k, run, lane == 0, is_last, own, before, after);
  }
}

// Samples of a warp in shared memory: a run is RUN + 1 apart from the next.
template <class T> DEVICE inline T* place(unsigned char* memory, int position) {
  return reinterpret_cast<T*>(memory) + position + position / RUN;
}

// Lines along the fast axis: a segment a warp.
template <bool WRITE>
DEVICE void filter_rows(const Arrays& arrays, const Shape& shape, const Weights& with) {
  constexpr int LENGTH = 32 * RUN, BYTES = sizeof(X) > sizeof(E) ? sizeof(X) : sizeof(E);
  __shared__ __align__(16) unsigned char all[WARPS][32 * (RUN + 1) * BYTES];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long number = blockIdx.x * (long long)WARPS + warp, line = number / shape.segments;
  if (line >= shape.lines) return;
  unsigned char* const memory = all[warp];
  const long long segment = number - line * shape.segments, start = segment * LENGTH;
  const long long first = line * shape.steps + start, left = shape.steps - start;
  const int length = left < LENGTH ? int(left) : LENGTH;
  X held[RUN];
#pragma unroll
  for (int i = 0; i < RUN; ++i)
    held[i] = i * 32 + lane < length ? arrays.x[first + i * 32 + lane] : X(0);
#pragma unroll
  for (int i = 0; i < RUN; ++i) *place<X>(memory, i * 32 + lane) = held[i];
  __syncwarp();
  Run run;
#pragma unroll
  for (int i = 0; i < RUN; ++i) run.x[i] = double(*place<X>(memory, lane * RUN + i));
  const int rest = length - lane * RUN;
  run.count = rest < 0 ? 0 : rest < RUN ? rest : RUN;
  const bool is_last = rest > 0 && rest <= RUN;
  States* const states = arrays.states + line * POLES * shape.segments + segment;
  const long long stride = shape.segments;
  if (length < LENGTH) end_row<WRITE>(with, run, lane, is_last, states, stride);
  else if (WRITE) filter_row(with, run, lane, states, stride);
  else summarize_row(with, run, lane, states, stride);
  if (!WRITE) return;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < RUN; ++i) *place<E>(memory, lane * RUN + i) = to_result(run.sum[i]);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < RUN; ++i)
    if (i * 32 + lane < length) arrays.y[first + i * 32 + lane] = *place<E>(memory, i * 32 + lane);
}

// The states of the runs of a block, (2, POLES, warps, 32) in `memory`, become those before and after
// the runs, and at its ends those of the segment if WRITE; or, if !WRITE, the states of the segment
// are written. A pole and direction a warp.
template <bool FULL, bool WRITE>
DEVICE inline void exchange_warps(const Weights& with, S* memory, int warps, States* states,
                                  long long stride, bool is_line) {
  const int lane = threadIdx.x % 32;
  for (int task = threadIdx.x / 32; task < 2 * POLES; task += warps) {
    const bool is_forward = task < POLES;
    const int k = is_forward ? task : task - POLES;
    S state = S(0.0), *const at = memory + task * warps * 32 + lane;
    if (FULL && WRITE && is_line)
      state = is_forward ? states[k * stride].before : states[k * stride].after;
    const S power = with.power[k][RUN];
    if (task < warps) __syncthreads();
    for (int w = 0; w < warps; ++w) {
      S* const place = at + (is_forward ? w : warps - 1 - w) * 32;
      const S own = *place;
      if (!FULL || WRITE) *place = state;
      state = advance(power, state, own);
    }
    if (FULL && !WRITE && is_line)
      (is_forward ? states[k * stride].before : states[k * stride].after) = state;
  }
  if (threadIdx.x / 32 >= 2 * POLES) __syncthreads();
  if (!FULL || WRITE) __syncthreads();
}

template <bool FULL, bool WRITE>
DEVICE inline void filter_column(const Weights& with, Run& run, bool is_first, bool is_last,
                                 bool is_line, States* states, long long stride, S* memory,
                                 int warps) {
  if (FULL) run.begin<WRITE>(with);
  else if (WRITE) run.begin_partly(with);
  States own[POLES];
  S* const at = memory + threadIdx.x;
#pragma unroll
  for (int k = 0; k < POLES; ++k) {
    own[k] = {S(0.0), S(0.0)};
    if (FULL) {
      run.walk_whole<WRITE>(with, k, own[k].before, own[k].after);
    } else {
      if (WRITE && is_first) own[k].before = states[k * stride].before;
      if (WRITE && is_last) own[k].after = states[k * stride].after;
      run.walk<false, WRITE>(with, k, own[k].before, own[k].after);
    }
    at[k * warps * 32] = own[k].before;
    at[(POLES + k) * warps * 32] = own[k].after;
  }
  exchange_warps<FULL, WRITE>(with, memory, warps, states, stride, is_line);
  if (FULL && !WRITE) return;
#pragma unroll
  for (int k = 0; k < POLES; ++k) {
    const S before = at[k * warps * 32], after = at[(POLES + k) * warps * 32];
    if (WRITE) run.add<FULL>(with, k, before, after);
    else write_states(states + k * stride, with, k, run, is_first, is_last, own[k], before, after);
  }
  if (FULL && WRITE) run.end();
}

// Lines side by side: a segment of 32 of them a block.
template <bool WRITE>
DEVICE void filter_columns(const Arrays& arrays, const Shape& shape, const Weights& with) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const long long groups = (shape.lines + 31) / 32, segment = blockIdx.x / groups;
  const long long line = (blockIdx.x - segment * groups) * 32 + lane, outer = line / shape.inner;
  const long long start = (segment * warps + warp) * RUN, left = shape.steps - start;
  const bool is_line = line < shape.lines;
  Run run;
  run.count = left < 0 ? 0 : left < RUN ? int(left) : RUN;
  const long long first =
      (outer * shape.steps + start) * shape.inner + line - outer * shape.inner;
  const X* from = arrays.x + first;
#pragma unroll
  for (int i = 0; i < RUN; ++i, from += shape.inner)
    run.x[i] = is_line && i < run.count ? double(*from) : 0.0;
  const bool is_last = is_line && left > 0 && (left <= RUN || warp == warps - 1);
  States* const states = arrays.states + line * POLES * shape.segments + segment;
  S* const memory = reinterpret_cast<S*>(shared_bytes);
  if ((segment + 1) * warps * RUN <= shape.steps)
    filter_column<true, WRITE>(with, run, is_line && warp == 0, is_last, is_line, states,
                               shape.segments, memory, warps);
  else
    filter_column<false, WRITE>(with, run, is_line && warp == 0, is_last, is_line, states,
                                shape.segments, memory, warps);
  if (!WRITE || !is_line) return;
  E* to = arrays.y + first;
#pragma unroll
  for (int i = 0; i < RUN; ++i, to += shape.inner)
    if (i < run.count) *to = to_result(run.sum[i]);
}

// s -> factor·s + added
struct Map {
  S factor, added;

  DEVICE void follow(S power, S state) {
    factor = power * factor;
    added = advance(power, added, state);
  }
  DEVICE Map of(int lane) const { return {from_lane(factor, lane), from_lane(added, lane)}; }
  DEVICE S apply(S state) const { return advance(factor, state, added); }
};

// The map of all lanes before this one, or after it if the direction is -1; and of all lanes.
DEVICE inline Map scan_lanes(Map map, int lane, int direction, Map& all) {
  const int number = direction > 0 ? lane : 31 - lane;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const Map earlier = map.of(lane - direction * d & 31);
    if (number >= d) map = {map.factor * earlier.factor, map.apply(earlier.added)};
  }
  all = map.of(direction > 0 ? 31 : 0);
  const Map before = map.of(lane - direction & 31);
  return number > 0 ? before : Map{S(1.0), S(0.0)};
}

DEVICE inline S beyond(const Border& border, const States& line, double first, double last,
                       double constant) {
  S sum = border.first * S(first) + border.last * S(last) + border.constant * S(constant);
  sum = advance(border.after, line.after, sum);
  return advance(border.before, line.before, sum);
}

// A line and pole a warp.
DEVICE void propagate(const Arrays& arrays, const Shape& shape, const Borders& borders) {
  const int lane = threadIdx.x % 32;
  const long long number = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  const long long line = number / POLES;
  if (line >= shape.lines) return;
  const int k = int(number - line * POLES);
  States* const states = arrays.states + number * shape.segments;
  const long long segments = shape.segments, chunk = (segments + 31) / 32;
  const long long begin = lane * chunk < segments ? lane * chunk : segments;
  const long long end = begin + chunk < segments ? begin + chunk : segments;
  const S power = borders.segment[k], last_power = borders.last_segment[k];
  Map forward = {S(1.0), S(0.0)}, backward = forward, all_forward, all_backward;
  for (long long j = begin; j < end; ++j)
    forward.follow(j < segments - 1 ? power : last_power, states[j].before);
  for (long long j = end - 1; j >= begin; --j)
    backward.follow(j < segments - 1 ? power : last_power, states[j].after);
  forward = scan_lanes(forward, lane, 1, all_forward);
  backward = scan_lanes(backward, lane, -1, all_backward);

  const States of_line = {all_forward.added, all_backward.added};
  const long long outer = line / shape.inner, inner = line - outer * shape.inner;
  S left, right;
  if (arrays.left) {
    const long long place = (outer * POLES + k) * shape.inner + inner;
    left = to_state(arrays.left[place], S(0.0));
    right = to_state(arrays.right[place], S(0.0));
  } else {
    const X* const x = arrays.x + outer * shape.steps * shape.inner + inner;
    const double first = double(x[0]), last = double(x[(shape.steps - 1) * shape.inner]);
    const double constant = line % 2 ? borders.constant[1] : borders.constant[0];
    left = beyond(borders.left[k], of_line, first, last, constant);
    right = beyond(borders.right[k], of_line, first, last, constant);
  }
  // One nan or inf makes the whole line nan. An infinite state would remain infinite.
  if (!is_finite(all_forward.apply(left)) || !is_finite(all_backward.apply(right)))
    left = right = S(not_a_number<double>());
  S state = forward.apply(left);
  for (long long j = begin; j < end; ++j) {
    const S own = states[j].before;
    states[j].before = state;
    state = advance(j < segments - 1 ? power : last_power, state, own);
  }
  state = backward.apply(right);
  for (long long j = end - 1; j >= begin; --j) {
    const S own = states[j].after;
    states[j].after = state;
    state = advance(j < segments - 1 ? power : last_power, state, own);
  }
}

// Sums of exponentials along the lines of an array (outer, steps, inner), in three launches:
//
// 1. `summarize`: the states of each segment at its ends, from its own samples;
// 2. `propagate`: the states before and after each segment, from those of all segments of the line
//    and from its borders;
// 3. `filter`: the results of each segment.
//
// A thread has a batch of BATCH samples in registers. It computes their recurrences from states of
// 0, and then adds the states before and after its batch times powers of the poles. A segment of a
// row has the batches of a warp. A segment of columns has those of a block, whose lanes have
// neighbouring lines. All states are doubles, and complex for complex poles.
#pragma once
#include "engines/cuda/lanes.cuh"
#include "ndimage/results.cuh"

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
  double half_tap[BATCH];        // of the kernel at distances from 0
  S pole[POLES], weight[POLES];  // and the weight of a state in the adjacent results
  S power[POLES][BATCH + 1];
  S even_power[POLES][BATCH / 2], odd_power[POLES][BATCH / 2];
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
DEVICE inline bool is_finite(double x) { return fabs(x) < infinity<double>(); }
DEVICE inline bool is_finite(complex<double> x) { return is_finite(x.re) && is_finite(x.im); }

// A batch of samples, and the sums of its results.
//
// Batches of complex poles are split into the parts that are even and odd about their middle: their
// states, and what a state adds to the results, are sums over half as many products. Results of the
// samples of the batch itself are sums over the taps of the kernel, for all poles at once. That
// takes 32 products a sample for the 4 poles of a Gaussian; recurrences take 64.
//
// Loops over a batch have one index. The compiler did not unroll those with an index from each end,
// and the batch was then in local memory: 4.6 ms in place of 1.9 ms for 16,384 x 16,384 float32 on
// an H200.
struct Batch {
  double x[BATCH], sum[BATCH];
  int count;  // its samples: BATCH unless the line ends in it

  template <bool WRITE> DEVICE void init(const Weights& with) {
    if (!IS_SPLIT) {
      if (WRITE) init_partly(with);
      return;
    }
#pragma unroll
    for (int i = 0; WRITE && i < BATCH; ++i) {
      sum[i] = with.half_tap[0] * x[i];
#pragma unroll
      for (int j = 0; j < BATCH; ++j) {
        if (j < i) sum[i] = fma(with.half_tap[i - j], x[j], sum[i]);
        if (j > i) sum[i] = fma(ODD ? -with.half_tap[j - i] : with.half_tap[j - i], x[j], sum[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH / 2; ++i) {
      split(x[i], x[BATCH - 1 - i]);
      if (WRITE) split(sum[i], sum[BATCH - 1 - i]);
    }
  }
  DEVICE static void split(double& first, double& last) {
    const double even = first + last;
    last = first - last;
    first = even;
  }
  DEVICE void init_partly(const Weights& with) {
#pragma unroll
    for (int i = 0; i < BATCH; ++i) sum[i] = with.middle * x[i];
  }
  // Advance both states of a pole from 0 through a whole batch.
  template <bool WRITE> DEVICE void walk_whole(const Weights& with, int k, S& before, S& after) {
    before = after = S(0.0);
    if (!IS_SPLIT) return walk<true, WRITE>(with, k, before, after);
    S even = S(0.0), odd = S(0.0);
#pragma unroll
    for (int j = 0; j < BATCH / 2; ++j) {
      even = add_product(with.even_power[k][j], x[j], even);
      odd = add_product(with.odd_power[k][j], x[BATCH - 1 - j], odd);
    }
    before = even - odd;
    after = even + odd;
  }
  // Advance both states of a pole through the batch; if WRITE, add them to the results.
  template <bool FULL, bool WRITE> DEVICE void walk(const Weights& with, int k, S& before, S& after) {
    const S pole = with.pole[k], weight = with.weight[k];
#pragma unroll
    for (int i = 0, j = BATCH - 1; i < BATCH; ++i, --j) {
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
  // Add the states before the batch and after it.
  template <bool FULL> DEVICE void add(const Weights& with, int k, S before, S after) {
    before = with.weight[k] * before;
    after = with.weight[k] * after;
    if (FULL && IS_SPLIT) {
      if (ODD) after = S(0.0) - after;
      const S plus = before + after, minus = before - after;
#pragma unroll
      for (int i = 0; i < BATCH / 2; ++i) {
        sum[i] = add_real(with.even_power[k][i], plus, sum[i]);
        sum[BATCH - 1 - i] = add_real(with.odd_power[k][i], minus, sum[BATCH - 1 - i]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      sum[i] = add_real(with.power[k][i], before, sum[i]);
      sum[i] = add_after(with.power[k][BATCH - 1 - i], after, sum[i]);
    }
  }
  DEVICE void end() {
#pragma unroll
    for (int i = 0; IS_SPLIT && i < BATCH / 2; ++i) split(sum[i], sum[BATCH - 1 - i]);
  }
};

// Write the states of a segment, of which this thread has the first or the last batch, from those
// of the batch and the adjacent ones.
DEVICE inline void write_states(States* states, const Weights& with, int k, const Batch& batch,
                                bool is_first, bool is_last, const States& batch_states, S before,
                                S after) {
  if (is_last) states->before = advance(with.power[k][batch.count], before, batch_states.before);
  if (is_first) states->after = advance(with.power[k][batch.count], after, batch_states.after);
}

// A batch's states, and in exchange those before and after it: of the lanes of a warp, and at the
// ends those of the segment.
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

// The states of a segment from those of the batches of a warp. Lanes exchange half of their numbers
// at a time, and add up the other half: 9 complex numbers for 4 poles in place of 40.
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

DEVICE inline void summarize_row(const Weights& with, Batch& batch, int lane, States* states,
                                 long long stride) {
  S number[2 * POLES];
  batch.init<false>(with);
#pragma unroll
  for (int k = 0; k < POLES; ++k)
    batch.walk_whole<false>(with, k, number[2 * k], number[2 * k + 1]);
  reduce_lanes(with, lane, number, states, stride);
}

DEVICE inline void filter_row(const Weights& with, Batch& batch, int lane, const States* states,
                              long long stride) {
  batch.init<true>(with);
#pragma unroll
  for (int k = 0; k < POLES; ++k, states += stride) {
    S before, after;
    batch.walk_whole<true>(with, k, before, after);
    States ends = {S(0.0), S(0.0)};
    if (lane == 0) {
      ends.before = states->before;
      before = advance(with.power[k][BATCH], ends.before, before);
    }
    if (lane == 31) {
      ends.after = states->after;
      after = advance(with.power[k][BATCH], ends.after, after);
    }
    exchange_lanes(with, k, lane, ends, before, after);
    batch.add<true>(with, k, before, after);
  }
  batch.end();
}

// The segment in which the line ends. Recurrences start from the adjacent states, since its last
// batch has fewer samples.
template <bool WRITE>
DEVICE inline void end_row(const Weights& with, Batch& batch, int lane, bool is_last,
                           States* states, long long stride) {
  if (WRITE) batch.init_partly(with);
#pragma unroll
  for (int k = 0; k < POLES; ++k, states += stride) {
    States batch_states = {S(0.0), S(0.0)};
    if (WRITE && lane == 0) batch_states.before = states->before;
    if (WRITE && is_last) batch_states.after = states->after;
    batch.walk<false, WRITE>(with, k, batch_states.before, batch_states.after);
    S before = batch_states.before, after = batch_states.after;
    exchange_lanes(with, k, lane, {S(0.0), S(0.0)}, before, after);
    if (WRITE) batch.add<false>(with, k, before, after);
    else write_states(states, with, k, batch, lane == 0, is_last, batch_states, before, after);
  }
}

// Return a sample of a warp in shared memory: a batch is BATCH + 1 apart from the next.
template <class T> DEVICE inline T* element_at(unsigned char* memory, int position) {
  return reinterpret_cast<T*>(memory) + position + position / BATCH;
}

// Lines along the fast axis: a segment a warp.
template <bool WRITE>
DEVICE void filter_rows(const Arrays& arrays, const Shape& shape, const Weights& with) {
  constexpr int LENGTH = 32 * BATCH, BYTES = sizeof(X) > sizeof(E) ? sizeof(X) : sizeof(E);
  __shared__ __align__(16) unsigned char all[WARPS][32 * (BATCH + 1) * BYTES];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long number = blockIdx.x * (long long)WARPS + warp, line = number / shape.segments;
  if (line >= shape.lines) return;
  unsigned char* const memory = all[warp];
  const long long segment = number - line * shape.segments, start = segment * LENGTH;
  const long long first = line * shape.steps + start, left = shape.steps - start;
  const int length = left < LENGTH ? int(left) : LENGTH;
  X loaded[BATCH];
#pragma unroll
  for (int i = 0; i < BATCH; ++i)
    loaded[i] = i * 32 + lane < length ? arrays.x[first + i * 32 + lane] : X(0);
#pragma unroll
  for (int i = 0; i < BATCH; ++i) *element_at<X>(memory, i * 32 + lane) = loaded[i];
  __syncwarp();
  Batch batch;
#pragma unroll
  for (int i = 0; i < BATCH; ++i) batch.x[i] = double(*element_at<X>(memory, lane * BATCH + i));
  const int remaining = length - lane * BATCH;
  batch.count = remaining < 0 ? 0 : remaining < BATCH ? remaining : BATCH;
  const bool is_last = remaining > 0 && remaining <= BATCH;
  States* const states = arrays.states + line * POLES * shape.segments + segment;
  const long long stride = shape.segments;
  if (length < LENGTH) end_row<WRITE>(with, batch, lane, is_last, states, stride);
  else if (WRITE) filter_row(with, batch, lane, states, stride);
  else summarize_row(with, batch, lane, states, stride);
  if (!WRITE) return;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < BATCH; ++i)
    *element_at<E>(memory, lane * BATCH + i) = to_result(batch.sum[i]);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < BATCH; ++i)
    if (i * 32 + lane < length)
      arrays.y[first + i * 32 + lane] = *element_at<E>(memory, i * 32 + lane);
}

// The states of the batches of a block, (2, POLES, warps, 32) in `memory`, become those before and
// after the batches, and at its ends those of the segment if WRITE; or, if !WRITE, the states of
// the segment are written. A pole and direction a warp.
template <bool FULL, bool WRITE>
DEVICE inline void exchange_warps(const Weights& with, S* memory, int warps, States* states,
                                  long long stride, bool exists) {
  const int lane = threadIdx.x % 32;
  for (int task = threadIdx.x / 32; task < 2 * POLES; task += warps) {
    const bool is_forward = task < POLES;
    const int k = is_forward ? task : task - POLES;
    S state = S(0.0), *const at = memory + task * warps * 32 + lane;
    if (FULL && WRITE && exists)
      state = is_forward ? states[k * stride].before : states[k * stride].after;
    const S power = with.power[k][BATCH];
    if (task < warps) __syncthreads();
    for (int w = 0; w < warps; ++w) {
      S* const address = at + (is_forward ? w : warps - 1 - w) * 32;
      const S batch_state = *address;
      if (!FULL || WRITE) *address = state;
      state = advance(power, state, batch_state);
    }
    if (FULL && !WRITE && exists)
      (is_forward ? states[k * stride].before : states[k * stride].after) = state;
  }
  if (threadIdx.x / 32 >= 2 * POLES) __syncthreads();
  if (!FULL || WRITE) __syncthreads();
}

template <bool FULL, bool WRITE>
DEVICE inline void filter_column(const Weights& with, Batch& batch, bool is_first, bool is_last,
                                 bool exists, States* states, long long stride, S* memory,
                                 int warps) {
  if (FULL) batch.init<WRITE>(with);
  else if (WRITE) batch.init_partly(with);
  States batch_states[POLES];
  S* const at = memory + threadIdx.x;
#pragma unroll
  for (int k = 0; k < POLES; ++k) {
    batch_states[k] = {S(0.0), S(0.0)};
    if (FULL) {
      batch.walk_whole<WRITE>(with, k, batch_states[k].before, batch_states[k].after);
    } else {
      if (WRITE && is_first) batch_states[k].before = states[k * stride].before;
      if (WRITE && is_last) batch_states[k].after = states[k * stride].after;
      batch.walk<false, WRITE>(with, k, batch_states[k].before, batch_states[k].after);
    }
    at[k * warps * 32] = batch_states[k].before;
    at[(POLES + k) * warps * 32] = batch_states[k].after;
  }
  exchange_warps<FULL, WRITE>(with, memory, warps, states, stride, exists);
  if (FULL && !WRITE) return;
#pragma unroll
  for (int k = 0; k < POLES; ++k) {
    const S before = at[k * warps * 32], after = at[(POLES + k) * warps * 32];
    if (WRITE) batch.add<FULL>(with, k, before, after);
    else
      write_states(states + k * stride, with, k, batch, is_first, is_last, batch_states[k], before,
                   after);
  }
  if (FULL && WRITE) batch.end();
}

// Lines along other axes: a segment of 32 of them a block.
template <bool WRITE>
DEVICE void filter_columns(const Arrays& arrays, const Shape& shape, const Weights& with) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const long long groups = (shape.lines + 31) / 32, segment = blockIdx.x / groups;
  const long long line = (blockIdx.x - segment * groups) * 32 + lane, outer = line / shape.inner;
  const long long start = (segment * warps + warp) * BATCH, left = shape.steps - start;
  const bool exists = line < shape.lines;
  Batch batch;
  batch.count = left < 0 ? 0 : left < BATCH ? int(left) : BATCH;
  const long long first =
      (outer * shape.steps + start) * shape.inner + line - outer * shape.inner;
  const X* from = arrays.x + first;
#pragma unroll
  for (int i = 0; i < BATCH; ++i, from += shape.inner)
    batch.x[i] = exists && i < batch.count ? double(*from) : 0.0;
  const bool is_last = exists && left > 0 && (left <= BATCH || warp == warps - 1);
  States* const states = arrays.states + line * POLES * shape.segments + segment;
  S* const memory = reinterpret_cast<S*>(shared_bytes);
  if ((segment + 1) * warps * BATCH <= shape.steps)
    filter_column<true, WRITE>(with, batch, exists && warp == 0, is_last, exists, states,
                               shape.segments, memory, warps);
  else
    filter_column<false, WRITE>(with, batch, exists && warp == 0, is_last, exists, states,
                                shape.segments, memory, warps);
  if (!WRITE || !exists) return;
  E* to = arrays.y + first;
#pragma unroll
  for (int i = 0; i < BATCH; ++i, to += shape.inner)
    if (i < batch.count) *to = to_result(batch.sum[i]);
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
  const long long first_segment = lane * chunk < segments ? lane * chunk : segments;
  const long long end = first_segment + chunk < segments ? first_segment + chunk : segments;
  const S power = borders.segment[k], last_power = borders.last_segment[k];
  Map forward = {S(1.0), S(0.0)}, backward = forward, all_forward, all_backward;
  for (long long j = first_segment; j < end; ++j)
    forward.follow(j < segments - 1 ? power : last_power, states[j].before);
  for (long long j = end - 1; j >= first_segment; --j)
    backward.follow(j < segments - 1 ? power : last_power, states[j].after);
  forward = scan_lanes(forward, lane, 1, all_forward);
  backward = scan_lanes(backward, lane, -1, all_backward);

  const States of_line = {all_forward.added, all_backward.added};
  const long long outer = line / shape.inner, inner = line - outer * shape.inner;
  S left, right;
  if (arrays.left) {
    const long long index = (outer * POLES + k) * shape.inner + inner;
    left = to_state(arrays.left[index], S(0.0));
    right = to_state(arrays.right[index], S(0.0));
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
  for (long long j = first_segment; j < end; ++j) {
    const S segment_state = states[j].before;
    states[j].before = state;
    state = advance(j < segments - 1 ? power : last_power, state, segment_state);
  }
  state = backward.apply(right);
  for (long long j = end - 1; j >= first_segment; --j) {
    const S segment_state = states[j].after;
    states[j].after = state;
    state = advance(j < segments - 1 ? power : last_power, state, segment_state);
  }
}

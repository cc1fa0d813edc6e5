// The forward and the backward pass, or one of them. E is the dtype of posteriors. If NORMALISED, the
// weights of each step are probabilities.
//
// A thread computes in plain numbers, scaled by powers of 2. If a number that is not 0 falls below
// TINY, it computes its segment again in logarithms.
#pragma once
#include "hmm/cuda/weights.cuh"

struct Pass : Maps {
  double* llf;       // of each segment; null for a backward pass alone
  double* filtered;  // ROW numbers of each step: weights, or logarithms that are all negative; or null
  E* posteriors;     // or null
  Sizes sizes;

  // Multiplies weights and emissions; returns whether a number may be lost.
  DEVICE static bool observe(const double* frame, double shift, Weights& w) {
    bool lost = false;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      const double product = w.v[j] * exp(frame[j] - shift);
      lost = lost || (product < TINY && w.v[j] != 0.0 && frame[j] > -infinity<double>());
      w.v[j] = product;
    }
    return lost;
  }

  // Advances weights by a step; returns whether a number may be lost.
  template <bool LOG>
  DEVICE bool forward(const Range& r, long long step, bool starts, double& shift, Weights& w) const {
    const double* frame = frames.at(r.outer, step, r.inner);
    const double* from = starts ? startprob.at(r.outer, 0, r.inner)
                                : transmat.at(r.outer, step, r.inner);
    Weights before = w;
    bool lost = false;
    shift = shift_of(frame);
    if (starts) w.power = 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) {
      if (starts) {
        w.v[j] = LOG ? log(from[j]) : from[j];
      } else if (LOG) {
        w.v[j] = log_sum([&](int i) { return before.v[i] + log(from[i * N + j]); });
      } else {
        double sum = 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
        for (int i = 0; i < N; ++i) sum += before.v[i] * from[i * N + j];
        w.v[j] = sum;
        if (sum < TINY)
          for (int i = 0; i < N; ++i)
            lost = lost || (before.v[i] != 0.0 && from[i * N + j] != 0.0);
      }
      if (LOG) w.v[j] += frame[j] - shift;
    }
    if (!LOG) lost = observe(frame, shift, w) || lost;
    w.template rescale<LOG>();
    return !LOG && (lost || w.is_tiny());
  }

  // Moves the weights of later observations from a step to the one before it.
  template <bool LOG> DEVICE bool backward(const Range& r, long long step, Weights& w) const {
    const double* frame = frames.at(r.outer, step, r.inner);
    const double* T = transmat.at(r.outer, step, r.inner);
    const double shift = shift_of(frame);
    bool lost = false;
    if (LOG) {
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j) w.v[j] += frame[j] - shift;
    } else {
      lost = observe(frame, shift, w);
    }
    const Weights after = w;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int i = 0; i < N; ++i) {
      if (LOG) {
        w.v[i] = log_sum([&](int j) { return after.v[j] + log(T[i * N + j]); });
      } else {
        double sum = 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
        for (int j = 0; j < N; ++j) sum += T[i * N + j] * after.v[j];
        w.v[i] = sum;
        if (sum < TINY)
          for (int j = 0; j < N; ++j) lost = lost || (after.v[j] != 0.0 && T[i * N + j] != 0.0);
      }
    }
    w.template rescale<LOG>();
    return !LOG && (lost || w.is_tiny());
  }

  DEVICE void summarise(const Range& r, int lane, double* memory) const {
    Map* map = reinterpret_cast<Map*>(memory);
    if (!summarise_in<false>(r, lane, map)) summarise_in<true>(r, lane, map);
  }
  template <bool LOG> DEVICE bool summarise_in(const Range& r, int lane, Map* map) const {
    Weights w;
    bool has_started = false;
    w.power = 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) w.v[j] = LOG ? (j == lane ? 0.0 : -infinity<double>()) : j == lane;
    for (long long step = r.begin; step < r.end; ++step) {
      const bool starts = is_start(r, step);
      if (starts && !has_started) {
        has_started = true;
        map->first[lane] = w.template log_total<LOG>();
        map->first_power[lane] = w.power;
      }
      double shift;
      if (forward<LOG>(r, step, starts, shift, w)) return false;
    }
    w.template to_logarithms<LOG>();
    store(w, has_started, lane, map);
    return true;
  }
  // The map of a chunk is that of the weights after its first step.
  DEVICE void enter(const Range& row, double* state) const {
    Weights w;
    double shift;
    w.power = 0.0;
    for (int j = 0; j < N; ++j) w.v[j] = state[j];
    forward<true>(row, 0, is_start(row, 0), shift, w);
    for (int j = 0; j < N; ++j) state[j] = w.v[j];
  }
  DEVICE void apply_back(const double* memory, double* state) const {
    const Map& map = *reinterpret_cast<const Map*>(memory);
    Weights after, w;
    for (int j = 0; j < N; ++j) after.v[j] = state[j];
    double base = NEVER;
    for (int i = 0; i < N; ++i) {
      const double power = map.starts ? map.first_power[i] : map.power[i];
      base = power > base ? power : base;
    }
    for (int i = 0; i < N; ++i) {
      w.v[i] = map.starts ? map.first[i] + (map.first_power[i] - base) * UNIT
                          : log_sum([&](int j) { return map.v[i][j] + after.v[j]; }) +
                                (map.power[i] - base) * UNIT;
    }
    w.rescale<true>();
    for (int j = 0; j < N; ++j) state[j] = w.v[j];
  }

  DEVICE void determine(const Range& r, const double* before, const double* after) const {
    if (r.begin == r.end) return;
    if (llf && !determine_forward<false>(r, before)) determine_forward<true>(r, before);
    if (posteriors && !determine_backward<false>(r, after)) determine_backward<true>(r, after);
  }
  DEVICE long long index_of(const Range& r, long long step) const {
    return (r.outer * sizes.steps + step) * sizes.inners + r.inner;
  }
  // Reads logarithms; returns whether a weight may be lost.
  template <bool LOG> DEVICE static bool read(const double* state, Weights& w) {
    w.power = 0.0;
    bool lost = false;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) {
      w.v[j] = LOG ? state[j] : exp(state[j]);
      lost = lost || (!LOG && w.v[j] < TINY && state[j] > -infinity<double>());
    }
    return lost;
  }

  template <bool LOG> DEVICE bool determine_forward(const Range& r, const double* before) const {
    Weights w;
    double sum = 0.0, shifts = 0.0;
    if (r.begin > 0 || r.continues) {
      if (read<LOG>(before, w)) return false;
      const double opening = w.template log_total<LOG>();
      if (opening > -infinity<double>()) sum = -opening;
    }
    for (long long step = r.begin; step < r.end; ++step) {
      const bool starts = is_start(r, step);
      if (starts && step > r.begin) sum += w.template log_total<LOG>() + w.power * LOG_2;
      if (starts && step == r.begin) sum = 0.0;
      double shift;
      if (forward<LOG>(r, step, starts, shift, w)) return false;
      shifts += shift;
      if (!filtered) continue;
      const double total = NORMALISED ? w.template log_total<LOG>() : 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j)
        filtered[index_of(r, step) * ROW + j] =
            NORMALISED ? exp((LOG ? w.v[j] : log(w.v[j])) - total) : LOG ? w.v[j] - 1.0 : w.v[j];
    }
    llf[r.number] = sum + w.template log_total<LOG>() + w.power * LOG_2 + shifts;
    return true;
  }

  // Writes the products of the weights of both passes, scaled to a sum of 1.
  template <bool LOG>
  DEVICE void write(const double* of_forward, const Weights& w, E* results) const {
    double product[N], total = 0.0;
    const bool is_log = of_forward[0] < 0.0;
    bool in_logarithms = LOG || is_log;
    if (!in_logarithms) {
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j) product[j] = of_forward[j] * w.v[j], total += product[j];
      in_logarithms = total < LOW;
    }
    if (in_logarithms) {
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j)
        product[j] = (is_log ? of_forward[j] : log(of_forward[j])) + (LOG ? w.v[j] : log(w.v[j]));
      const double log_total = log_sum([&](int j) { return product[j]; });
      total = 1.0;
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j) product[j] = exp(product[j] - log_total);
    }
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) results[j] = E(product[j] / total);
  }

  template <bool LOG> DEVICE bool determine_backward(const Range& r, const double* after) const {
    Weights w;
    if (read<LOG>(after, w)) return false;
    if (r.end == sizes.steps && !r.goes_on)
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j) w.v[j] = LOG ? 0.0 : 1.0;
    for (long long step = r.end - 1; step >= r.begin; --step) {
      const long long index = index_of(r, step);
      write<LOG>(filtered + index * ROW, w, posteriors + index * N);
      if (is_start(r, step)) {
#pragma unroll (LOG ? 1 : UNROLL)
        for (int j = 0; j < N; ++j) w.v[j] = LOG ? 0.0 : 1.0;
      } else if (step > r.begin && backward<LOG>(r, step, w)) {
        return false;
      }
    }
    return true;
  }
};

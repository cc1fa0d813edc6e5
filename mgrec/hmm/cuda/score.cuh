// The pass that scores best paths, and points from each state to that before it.
#pragma once
#include "hmm/cuda/weights.cuh"

constexpr double TIE = 1e-10;  // see hmm/recurrence.py
constexpr unsigned char NO_STATE = 255;

struct Pass : Maps {
  unsigned char* pointers;  // N of each step, and the state with the highest score
  Sizes sizes;

  // Advances scores by a step; `pointers` of the states if there are any.
  DEVICE void advance(const Range& r, long long step, bool starts, Weights& w,
                      unsigned char* pointers) const {
    const double* frame = frames.at(r.outer, step, r.inner);
    const double* from = starts ? startprob.at(r.outer, 0, r.inner)
                                : transmat.at(r.outer, step, r.inner);
    const double shift = shift_of(frame);
    const Weights before = w;
    if (starts) w.power = 0.0;
    for (int j = 0; j < N; ++j) {
      const double best =
          starts ? from[j] : log_sum([&](int i) { return before.v[i] + from[i * N + j]; });
      w.v[j] = best + (frame[j] - shift);
      if (!pointers) continue;
      pointers[j] = starts ? NO_STATE : 0;
      if (!starts)
        for (int i = N - 1; i >= 0; --i)
          if (before.v[i] + from[i * N + j] >= best - TIE) pointers[j] = i;
    }
  }

  DEVICE void summarise(const Range& r, int lane, double* memory) const {
    Map* map = reinterpret_cast<Map*>(memory);
    Weights w;
    bool has_started = false;
    w.power = 0.0;
    for (int j = 0; j < N; ++j) w.v[j] = j == lane ? 0.0 : -infinity<double>();
    for (long long step = r.begin; step < r.end; ++step) {
      const bool starts = is_start(r, step);
      has_started = has_started || starts;
      advance(r, step, starts, w, nullptr);
      w.rescale<true>();
    }
    store(w, has_started, lane, map);
  }

  DEVICE void determine(const Range& r, const double* before, const double*) const {
    if (r.begin == r.end) return;
    Weights w;
    for (int j = 0; j < N; ++j) w.v[j] = before[j];
    for (long long step = r.begin; step < r.end; ++step) {
      unsigned char* of_step =
          pointers + ((r.outer * sizes.steps + step) * sizes.inners + r.inner) * (N + 1);
      advance(r, step, is_start(r, step), w, of_step);
      const double best = w.log_total<true>();
      if (fabs(best) < infinity<double>())
        for (int j = 0; j < N; ++j) w.v[j] -= best;
      of_step[N] = 0;
      for (int j = N - 1; j >= 0; --j)
        if (w.v[j] >= -TIE) of_step[N] = j;
    }
  }
  DEVICE void enter(const Range& row, double* state) const {
    Weights w;
    w.power = 0.0;
    for (int j = 0; j < N; ++j) w.v[j] = state[j];
    advance(row, 0, is_start(row, 0), w, nullptr);
    w.rescale<true>();
    for (int j = 0; j < N; ++j) state[j] = w.v[j];
  }
  DEVICE void apply_back(const double*, double*) const {}
};

// The pass that smooths: r and N of statespace/cpu/smoothing.py, or u and W of root_smoothing.py.
//
// The state before a step is a map of that after it. E is the dtype of results. If WRITES_SUMS, the
// results are r and N themselves.
#pragma once
#include "scans/matrix/cuda/segments.cuh"
#include "statespace/cuda/smoother_steps.cuh"

struct Pass {
  typedef SmootherMap Map;
  typedef ::Step<SQUARE_ROOT> Step;
  static constexpr int LANES = 1, MAP = sizeof(Map) / sizeof(double), STATE = N + N * N;
  Operand endog, design, obs_intercept, obs_cov, transition, state_cov;
  Operand later_root;  // of the state after a row that continues
  Marks marks;
  Operand predicted, predicted_cov;
  E *smoothed, *smoothed_cov;
  Sizes sizes;

  INLINED long long place_of(const Range& range, long long step) const {
    return (range.outer * sizes.steps + step) * sizes.inners + range.inner;
  }

  INLINED void load(const Range& range, long long step, Step& s) const {
    const long long x = range.outer, y = range.inner;
    const double *a = predicted.at(x, step, y), *P = predicted_cov.at(x, step, y);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      s.a[i] = a[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) s.P[i][j] = P[i * N + j];
    }
    s.load(endog.at(x, step, y), design.at(x, step, y), obs_intercept.at(x, step, y),
           obs_cov.at(x, step, y), transition.at(x, step, y), state_cov.at(x, step, y));
  }

  INLINED bool is_start(const Range& range, long long step) const {
    return (step == 0 && !range.continues) ||
           (marks.first && *marks.at(range.outer, step, range.inner));
  }
  INLINED bool is_last(const Range& range) const {
    return range.end == sizes.steps && !range.goes_on;
  }

  // The map between a segment, whose last step is s, and the state after it.
  INLINED void link(const Range& range, const Step& s, Map& map) const {
    if (is_last(range)) {
      clear(map.M), Step::know_nothing(map.r, map.N_), map.ends = true;
      return;
    }
    const double* later = later_root.first ? later_root.at(range.outer, 0, range.inner) : nullptr;
    if (range.end < sizes.steps) later = predicted_cov.at(range.outer, range.end, range.inner);
    if (later) s.link(later, map);
  }

  INLINED static void set_unit(Map& map) {
    ::set_unit(map.M), clear_state(map.r, map.N_), map.ends = false;
  }

  INLINED void summarise(const Range& range, int, double* memory) const {
    Map map;
    set_unit(map);
    for (long long step = range.end - 1; step >= range.begin; --step) {
      Step s;
      load(range, step, s);
      if (step == range.end - 1) link(range, s, map);
      s.back(map.r, map.N_);
      if (!map.ends) s.depend(map.M);
      if (is_start(range, step)) clear(map.M), Step::know_nothing(map.r, map.N_), map.ends = true;
    }
    *reinterpret_cast<Map*>(memory) = map;
  }

  // Replaces the state after a map by that before it.
  INLINED static void follow(const Map& map, double (&r)[N], double (&C)[N][N]) {
    if (map.ends) clear_state(r, C);
    Step::follow(map, r, C);
  }

  INLINED void join(const double* memory, int count, int, double* joined) const {
    const Map* maps = reinterpret_cast<const Map*>(memory);
    Map map;
    set_unit(map);
    for (int k = count - 1; k >= 0; --k) {
      follow(maps[k], map.r, map.N_);
      multiply(&maps[k].M[0][0], map.M);
      map.ends = map.ends || maps[k].ends;
    }
    *reinterpret_cast<Map*>(joined) = map;
  }

  // In square-root form the map of a chunk takes a state that refers to the chunk's own root.
  INLINED void enter(const Range& row, double* state) const {
    double r[N], C[N][N];
    Map map;
    Step s;
    read_state(state, r, C);
    set_unit(map);
    load(row, sizes.steps - 1, s);
    if (!is_last(row)) link(row, s, map), follow(map, r, C);
    write_state(r, C, state, state + N);
  }

  INLINED void apply(const double*, double*) const {}
  INLINED void apply_back(const double* memory, double* state) const {
    double r[N], C[N][N];
    read_state(state, r, C);
    follow(*reinterpret_cast<const Map*>(memory), r, C);
    write_state(r, C, state, state + N);
  }

  INLINED void determine(const Range& range, const double*, const double* after) const {
    constexpr int WIDTH = N + N * N;
    __shared__ Stage<Stage<WIDTH>::FITS ? WIDTH : 1> stage;
    const bool is_staged = Stage<WIDTH>::FITS && sizes.inners == 1;
    const int steps = is_staged ? stage.STEPS : 1;
    double r[N], C[N][N];
    if (is_last(range)) Step::know_nothing(r, C);
    else read_state(after, r, C);
    for (long long last = 0; last < sizes.length; last += steps) {
      const long long end = range.end - last;
      const long long start = end - steps > range.begin ? end - steps : range.begin;
#pragma unroll 1
      for (long long step = end - 1; step >= start; --step) {
        const long long place = place_of(range, step);
        Step s;
        load(range, step, s);
        if (SQUARE_ROOT && step == range.end - 1 && !is_last(range)) {
          Map map;
          set_unit(map);
          link(range, s, map);
          follow(map, r, C);
        }
        s.back(r, C);
        double mean[N], covariance[N][N];
        s.smooth(r, C, mean, covariance);
        const int k = int(step - start);
        if (is_staged) write_state(mean, covariance, stage.at(0, k, N), stage.at(N, k, N * N));
        else write_state(mean, covariance, smoothed + place * N, smoothed_cov + place * N * N);
        if (is_start(range, step)) Step::know_nothing(r, C);
      }
      if (!is_staged) continue;
      stage.place[threadIdx.x] = range.outer * sizes.steps + start;
      stage.count[threadIdx.x] = end > start ? int(end - start) : 0;
      __syncwarp();
      stage.write(smoothed, 0, N);
      stage.write(smoothed_cov, N, N * N);
      __syncwarp();
    }
  }
};

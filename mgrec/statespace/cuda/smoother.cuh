// The pass that smooths: the recursion of Durbin and Koopman, as in statespace/cpu/smoothing.py.
//
// r and N of a step are a map of those after it: M·r + a and M·N·M' + P. E is the dtype of results. If
// WRITES_SUMS, the results are r and N themselves.
#pragma once
#include "scans/matrix/cuda/segments.cuh"
#include "statespace/cuda/update.cuh"

struct Pass {
  struct Map { double M[N][N], r[N], N_[N][N], ends; };
  static constexpr int LANES = 1, MAP = sizeof(Map) / sizeof(double), STATE = N + N * N;
  Operand endog, design, obs_intercept, obs_cov, transition;
  Marks marks;
  const double *predicted, *predicted_cov;
  E *smoothed, *smoothed_cov;
  Sizes sizes;

  // r and N after a step become those before it; also M if there is one.
  struct Step { double a[N], P[N][N], E_[N][N], Y[OBSERVED][N], w[OBSERVED]; };

  INLINED void load(const Range& range, long long step, Step& s) const {
    const long long x = range.outer, y = range.inner;
    const long long place = (x * sizes.steps + step) * sizes.inners + y;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      s.a[i] = predicted[place * N + i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) s.P[i][j] = predicted_cov[(place * N + i) * N + j];
    }
    set_unit(s.E_);
    const double* Z = design.at(x, step, y);
    bool seen[OBSERVED];
    differences(endog.at(x, step, y), Z, obs_intercept.at(x, step, y), s.a, seen, s.w);
    Gain<OBSERVED> gain;
    gain.factor(Z, obs_cov.at(x, step, y), s.P, seen);
    gain.whiten(s.w);
    gain.whiten(Z, seen, s.E_, s.Y);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j)
#pragma unroll UNROLL
        for (int k = 0; k < OBSERVED; ++k) s.E_[i][j] -= gain.X[i][k] * s.Y[k][j];
    multiply(transition.at(x, step, y), s.E_);
  }

  // E'·M.
  INLINED static void multiply_transposed(const double (&F)[N][N], double (&M)[N][N]) {
    double transposed[N * N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) transposed[j * N + i] = F[i][j];
    multiply(transposed, M);
  }

  // Replaces r by F'·r and C by F'·C·F.
  INLINED static void transfer(const double (&F)[N][N], double (&r)[N], double (&C)[N][N]) {
    double before[N], transposed[N * N], zero[N * N], after[N][N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      before[i] = 0.0;
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) {
        before[i] += F[j][i] * r[j];
        transposed[i * N + j] = F[j][i];
        zero[i * N + j] = 0.0;
      }
    }
    predict_covariance(transposed, zero, C, after);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) r[i] = before[i];
    copy(after, C);
  }

  INLINED static void add(const Step& s, double (&r)[N], double (&C)[N][N]) {
#pragma unroll UNROLL
    for (int k = 0; k < OBSERVED; ++k)
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        r[i] += s.Y[k][i] * s.w[k];
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j) C[i][j] += s.Y[k][i] * s.Y[k][j];
      }
  }

  INLINED bool is_start(const Range& range, long long step) const {
    return (step == 0 && !range.continues) ||
           (marks.first && *marks.at(range.outer, step, range.inner));
  }
  INLINED static void clear(double (&r)[N], double (&C)[N][N]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) r[i] = 0.0;
    ::clear(C);
  }

  INLINED void summarise(const Range& range, int, double* memory) const {
    Map* map = reinterpret_cast<Map*>(memory);
    double M[N][N], r[N], C[N][N];
    bool ends = false;
    clear(r, C);
    set_unit(M);
    for (long long step = range.end - 1; step >= range.begin; --step) {
      Step s;
      load(range, step, s);
      transfer(s.E_, r, C);
      add(s, r, C);
      if (!ends) multiply_transposed(s.E_, M);
      if (is_start(range, step)) clear(r, C), ends = true;
    }
    store(M, r, C, ends, map);
  }

  INLINED static void store(const double (&M)[N][N], const double (&r)[N], const double (&C)[N][N],
                           bool ends, Map* map) {
    map->ends = ends;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) map->r[i] = r[i];
    copy(M, map->M), copy(C, map->N_);
  }

  // Replaces the state after a map by that before it.
  INLINED static void follow(const Map& map, double (&r)[N], double (&C)[N][N]) {
    double F[N][N];
    if (map.ends) clear(r, C);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) F[i][j] = map.M[j][i];
    if (!map.ends) transfer(F, r, C);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      r[i] += map.r[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) C[i][j] += map.N_[i][j];
    }
  }

  INLINED void join(const double* maps, int count, int, double* memory) const {
    const Map* map = reinterpret_cast<const Map*>(maps);
    double M[N][N], r[N], C[N][N];
    bool ends = false;
    clear(r, C);
    set_unit(M);
    for (int k = count - 1; k >= 0; --k) {
      follow(map[k], r, C);
      multiply(&map[k].M[0][0], M);
      ends = ends || map[k].ends;
    }
    store(M, r, C, ends, reinterpret_cast<Map*>(memory));
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
    if (range.end == sizes.steps && !range.continues) clear(r, C);
    else read_state(after, r, C);
    for (long long last = 0; last < sizes.length; last += steps) {
      const long long end = range.end - last;
      const long long start = end - steps > range.begin ? end - steps : range.begin;
#pragma unroll 1
      for (long long step = end - 1; step >= start; --step) {
        const long long place = (range.outer * sizes.steps + step) * sizes.inners + range.inner;
        Step s;
        load(range, step, s);
        transfer(s.E_, r, C);
        add(s, r, C);
        double mean[N], covariance[N][N], later[N], added[N][N];
#pragma unroll UNROLL
        for (int i = 0; i < N; ++i) later[i] = r[i];
        copy(C, added);
        transfer(s.P, later, added);
#pragma unroll UNROLL
        for (int i = 0; i < N; ++i) {
          mean[i] = WRITES_SUMS ? r[i] : s.a[i] + later[i];
#pragma unroll UNROLL
          for (int j = 0; j < N; ++j) covariance[i][j] = WRITES_SUMS ? C[i][j] : s.P[i][j] - added[i][j];
        }
        const int k = int(step - start);
        if (is_staged) write_state(mean, covariance, stage.at(0, k, N), stage.at(N, k, N * N));
        else write_state(mean, covariance, smoothed + place * N, smoothed_cov + place * N * N);
        if (is_start(range, step)) clear(r, C);
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

// The pass that filters. E is the dtype of results, S that of predicted states.
#pragma once
#include "scans/matrix/cuda/segments.cuh"
#include "statespace/cuda/update.cuh"

struct Pass {
  static constexpr int LANES = 1, MAP = sizeof(Map) / sizeof(double), STATE = N + N * N;
  Operand endog, design, obs_intercept, obs_cov, transition, state_intercept, state_cov;
  Operand initial_state, initial_state_cov;
  Marks marks;
  double* llf;  // of each segment
  E *llf_obs, *filtered, *filtered_cov;  // or null
  S *predicted, *predicted_cov;
  Sizes sizes;

  struct Model { const double *y, *Z, *d, *H; };
  INLINED bool is_start(const Range& r, long long step) const {
    return (step == 0 && !r.continues) ||
           (marks.first && *marks.at(r.outer, step, r.inner));
  }

  // A filter in the middle of a row.
  struct Filter {
    double a[N], P[N][N], C[N][N], kept[N][N];
    Gain<OBSERVED> gain;
    int close = 0;
    bool is_steady = false, was_full = false;
  };

  // Moves to the prediction of a step; returns whether a sequence starts there.
  INLINED bool predict(const Range& r, long long step, Filter& f) const {
    const long long x = r.outer, y = r.inner;
    if (is_start(r, step)) {
      // Operands of two steps have the state before the first step of a chunk, and that at marks.
      const bool marked = marks.first && *marks.at(x, step, y);
      const double *a = initial_state.at(x, marked, y), *P = initial_state_cov.at(x, marked, y);
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        f.a[i] = a[i];
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j)
          f.P[i][j] = SQUARE_ROOT ? P[i * N + j] : 0.5 * (P[i * N + j] + P[j * N + i]);
      }
      f.is_steady = false, f.close = 0;
      return true;
    }
    const double* T = transition.at(x, step - 1, y);
    predict_mean(T, state_intercept.at(x, step - 1, y), f.a);
    if (f.is_steady) return false;
    ::predict(T, state_cov.at(x, step - 1, y), f.C, f.P);
    if (CONSTANT) {
      f.close = f.was_full && is_close(f.P, f.kept) ? f.close + 1 : 0;
      if (f.close == 0) copy(f.P, f.kept);
    }
    return false;
  }

  // Observes a step; writes the whitened differences. Returns whether an entry has no variance.
  INLINED bool observe(const Range& r, long long step, Filter& f, bool (&seen)[OBSERVED],
                      double (&w)[OBSERVED], bool measures) const {
    const long long x = r.outer, y = r.inner;
    const double* Z = design.at(x, step, y);
    bool full = differences(endog.at(x, step, y), Z, obs_intercept.at(x, step, y), f.a, seen, w);
    bool removes = false;
    f.is_steady = f.is_steady && full;
    if (!f.is_steady) {
      removes = update(Z, obs_cov.at(x, step, y), f.P, seen, f.gain, f.C);
      full = full && !removes;
      clear_unseen(seen, w);
      if (measures) f.gain.measure();
      f.is_steady = CONSTANT && full && f.close >= STEADY_STEPS;
    }
    f.was_full = full;
    f.gain.whiten(w);
    f.gain.add(w, f.a);
    return removes;
  }

  INLINED void summarise(const Range& r, int, double* memory) const {
    Filter f;
    Dependence d;
    bool starts = false;
    double growth = 0.0;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) f.a[i] = d.eta[i] = 0.0;
    clear(f.C), clear(f.kept), clear(d.J), set_unit(d.A);
    for (long long step = r.begin; step < r.end; ++step) {
      if (predict(r, step, f)) {
        starts = true;
      } else if (!starts) {
        multiply(transition.at(r.outer, step - 1, r.inner), d.A);
        growth = growth_of(d.A, growth);
      }
      bool seen[OBSERVED];
      double w[OBSERVED];
      const bool removes = observe(r, step, f, seen, w, false);
      if (starts) continue;
      // An entry without a variance may still depend on the first state.
      if (removes && growth_of(d.A, 0.0) > 0.0) growth = infinity<double>();
      d.observe(f.gain, design.at(r.outer, step, r.inner), seen, w);
    }
    store(f.a, f.C, d, starts, starts ? 0.0 : growth, memory);
  }

  INLINED static void store(const double (&a)[N], const double (&C)[N][N], const Dependence& d,
                           bool starts, double growth, double* memory) {
    Map* map = reinterpret_cast<Map*>(memory);
    map->starts = starts;
    map->growth = !starts && loses_digits(d.A, growth, d.J) ? infinity<double>() : growth;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      map->a[i] = a[i];
      map->eta[i] = d.eta[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) {
        map->A[i][j] = starts ? 0.0 : d.A[i][j];
        map->P[i][j] = C[i][j];
        map->J[i][j] = d.J[i][j];
      }
    }
  }

  // R and z of a map.
  INLINED static void observations_of(const Map& map, double (&Z)[N * N], double (&z)[N]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      z[i] = map.eta[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) Z[i * N + j] = SQUARE_ROOT ? map.J[j][i] : 0.0;
    }
    if (SQUARE_ROOT) return;
#pragma unroll UNROLL
    for (int k = 0; k < N; ++k) {
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        if (i < k) continue;
        double total = map.J[i][k];
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j)
          if (j < k) total -= Z[j * N + i] * Z[j * N + k];
        // What remains of a singular matrix is rounding.
        if (i == k) Z[k * N + k] = total <= 1e-15 * N * map.J[k][k] ? 0.0 : sqrt(total);
        else Z[k * N + i] = Z[k * N + k] == 0.0 ? 0.0 : total / Z[k * N + k];
      }
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j)
        if (j < k) z[k] -= Z[j * N + k] * z[j];
      z[k] = Z[k * N + k] == 0.0 ? 0.0 : z[k] / Z[k * N + k];
    }
  }

  // Replaces the state (a, C) by that after a map, and updates what it depends on.
  //
  // The likelihood of a map is that of N observations with noise of variance 1, z = R·x for
  // J = R'·R and eta = R'·z. In square-root form the map has R' and z themselves.
  template <bool DEPENDS>
  INLINED static void follow(const Map& map, double (&a)[N], double (&C)[N][N], Dependence& d) {
    double Z[N * N], z[N], H[N * N], d0[N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) H[i * N + j] = i == j ? 1.0 : 0.0;
      d0[i] = 0.0;
    }
    observations_of(map, Z, z);
    bool seen[N];
    double w[N], P[N][N];
    Gain<N> gain;
    differences(z, Z, d0, a, seen, w);
    const bool removes = update(Z, H, C, seen, gain, P);
    clear_unseen(seen, w);
    gain.whiten(w);
    gain.add(w, a);
    if (DEPENDS) d.observe(gain, Z, seen, w);
    if (DEPENDS && removes) d.J[0][0] = infinity<double>();
    predict_mean(&map.A[0][0], map.a, a);
    ::predict(&map.A[0][0], &map.P[0][0], P, C);
    if (DEPENDS) multiply(&map.A[0][0], d.A);
  }

  INLINED void join(const double* maps, int count, int, double* memory) const {
    const Map* map = reinterpret_cast<const Map*>(maps);
    double a[N], C[N][N];
    Dependence d;
    bool starts = map->starts;
    double growth = map->growth;
    load(*map, a, C);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) d.eta[i] = map->eta[i];
    copy(map->A, d.A), copy(map->J, d.J);
    for (int k = 1; k < count; ++k) {
      if (starts) follow<false>(map[k], a, C, d);
      else follow<true>(map[k], a, C, d);
      if (map[k].starts) load(map[k], a, C), starts = true;
      if (!starts) growth = growth_of(d.A, growth);
      growth = growth < map[k].growth ? map[k].growth : growth;
    }
    store(a, C, d, starts, growth, memory);
  }

  INLINED static void load(const Map& map, double (&a)[N], double (&C)[N][N]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) a[i] = map.a[i];
    copy(map.P, C);
  }

  INLINED void apply(const double* memory, double* state) const {
    const Map& map = *reinterpret_cast<const Map*>(memory);
    double a[N], C[N][N];
    if (map.starts) {
      load(map, a, C);
    } else {
      read_state(state, a, C);
      Dependence none;
      follow<false>(map, a, C, none);
    }
    write_state(a, C, state, state + N);
  }
  INLINED void apply_back(const double*, double*) const {}

  // The map of a chunk is that of the states after its first observation.
  INLINED void enter(const Range& row, double* state) const {
    Filter f;
    bool seen[OBSERVED];
    double w[OBSERVED];
    clear(f.kept);
    predict(row, 0, f);
    observe(row, 0, f, seen, w, false);
    write_state(f.a, f.C, state, state + N);
  }

  // Replaces the state before a segment by that after it, step by step.
  INLINED void pass_over(const Range& r, double* state) const {
    bool is_known = false;
    for (int i = 0; i < STATE; ++i) is_known = is_known || state[i] == state[i];
    if (!is_known) return;
    Filter f;
    read_state(state, f.a, f.C);
    clear(f.kept);
    for (long long step = r.begin; step < r.end; ++step) {
      bool seen[OBSERVED];
      double w[OBSERVED];
      predict(r, step, f);
      observe(r, step, f, seen, w, false);
    }
    write_state(f.a, f.C, state, state + N);
  }

  // The covariance among results: the smoother, which has no filtered states, reads roots.
  INLINED void result_of(const double (&C)[N][N], double (&covariance)[N][N]) const {
    if (SQUARE_ROOT && filtered) square(C, covariance);
    else copy(C, covariance);
  }

  // The results of a step: offsets among all of them.
  static constexpr int OF_FILTERED = 1, OF_PREDICTED = 1 + N + N * N, WIDTH = 1 + 2 * (N + N * N);

  INLINED void determine(const Range& r, const double* before, const double*) const {
    __shared__ Stage<Stage<WIDTH>::FITS ? WIDTH : 1> stage;
    const bool is_staged = Stage<WIDTH>::FITS && sizes.inners == 1 && predicted;
    const int steps = is_staged ? stage.STEPS : 1;
    Filter f;
    read_state(before, f.a, f.C);
    clear(f.kept);
    double sum = 0.0;
    for (long long first = 0; first < sizes.length; first += steps) {
      const long long start = r.begin + first;
#pragma unroll 1
      for (int k = 0; k < steps && start + k < r.end; ++k) {
        const long long index = ((r.outer * sizes.steps + start + k) * sizes.inners + r.inner);
        bool seen[OBSERVED];
        double w[OBSERVED], P[N][N], C[N][N];
        predict(r, start + k, f);
        result_of(f.P, P);
        if (is_staged)
          write_state(f.a, P, stage.at(OF_PREDICTED, k, N), stage.at(OF_PREDICTED + N, k, N * N));
        else if (predicted)
          write_state(f.a, P, predicted + index * N, predicted_cov + index * N * N);
        observe(r, start + k, f, seen, w, true);
        result_of(f.C, C);
        double square = 0.0;
        int count = 0;
#pragma unroll UNROLL
        for (int i = 0; i < OBSERVED; ++i) square += w[i] * w[i], count += seen[i];
        const double value = -0.5 * (count * LOG_2_PI + f.gain.log_determinant + square);
        sum += value;
        if (is_staged) {
          *stage.at(0, k, 1) = value;
          write_state(f.a, C, stage.at(OF_FILTERED, k, N), stage.at(OF_FILTERED + N, k, N * N));
          continue;
        }
        if (llf_obs) llf_obs[index] = E(value);
        if (filtered) write_state(f.a, C, filtered + index * N, filtered_cov + index * N * N);
      }
      if (!is_staged) continue;
      const long long left = r.end - start;
      stage.first_step[threadIdx.x] = r.outer * sizes.steps + start;
      stage.count[threadIdx.x] = left < 0 ? 0 : left < steps ? int(left) : steps;
      __syncwarp();
      stage.write(llf_obs, 0, 1);
      stage.write(filtered, OF_FILTERED, N);
      stage.write(filtered_cov, OF_FILTERED + N, N * N);
      stage.write(predicted, OF_PREDICTED, N);
      stage.write(predicted_cov, OF_PREDICTED + N, N * N);
      __syncwarp();
    }
    if (r.begin < r.end) llf[r.number] = sum;
  }
};

// The operands of the first step of each row; and those of the transition after its last step.
extern "C" __global__ void ends_kernel(const Pass pass, double* ends) {
  const Sizes& sizes = pass.sizes;
  const long long row = index_of_thread(), x = row / sizes.inners, y = row % sizes.inners;
  if (row >= sizes.outers * sizes.inners) return;
  constexpr int P = OBSERVED, WIDTH = P * (2 + N + P) + 2 * (N + 2 * N * N) + 1 + N + N * N;
  double* to = ends + row * WIDTH;
  const auto copy = [&](const Operand& operand, long long step, int count) {
    if (operand.first)
      for (int k = 0; k < count; ++k) to[k] = operand.at(x, step, y)[k];
    to += count;
  };
  copy(pass.endog, 0, P), copy(pass.design, 0, P * N), copy(pass.obs_intercept, 0, P);
  copy(pass.obs_cov, 0, P * P);
  for (int k = 0; k < 2; ++k) {
    const long long step = k * (sizes.steps - 1);
    copy(pass.transition, step, N * N), copy(pass.state_intercept, step, N);
    copy(pass.state_cov, step, N * N);
  }
  *to++ = pass.marks.first ? *pass.marks.at(x, 0, y) : 0.0;
  copy(pass.initial_state, 0, N), copy(pass.initial_state_cov, 0, N * N);
}

// The states before the segments of a row, one after the other, if a map loses digits.
extern "C" __global__ void repair_kernel(const Pass pass, double* of_levels, double* states,
                                         long long top, long long groups, long long first) {
  const Sizes& sizes = pass.sizes;
  const long long row = index_of_thread();
  if (row >= sizes.outers * sizes.inners) return;
  const Map* maps = reinterpret_cast<const Map*>(of_levels + top) + row * groups;
  double growth = 0.0;
  for (int k = 0; k < groups; ++k) growth = growth < maps[k].growth ? maps[k].growth : growth;
  if (growth < infinity<double>()) return;
  maps = reinterpret_cast<const Map*>(of_levels) + row * sizes.segments;
  double* state = states + first + row * sizes.segments * Pass::STATE;
  for (long long k = 0; k + 1 < sizes.segments; ++k) {
    double next[Pass::STATE];
    for (int i = 0; i < Pass::STATE; ++i) next[i] = state[i];
    if (maps[k].growth < infinity<double>()) pass.apply(&maps[k].A[0][0], next);
    else pass.pass_over(sizes.range(row * sizes.segments + k), next);
    state += Pass::STATE;
    for (int i = 0; i < Pass::STATE; ++i) state[i] = next[i];
  }
}

// The pass that smooths: r and N of statespace/cpu/smoothing.py, or u and W of cpu/roots.py.
//
// The state before a step is a map of that after it. E is the dtype of results. If WRITES_SUMS, the
// results are r and N themselves.
#pragma once
#include "scans/matrix/cuda/segments.cuh"
#include "statespace/cuda/update.cuh"

// The steps of both forms of the smoother, from the state after a step to that before it.

// A map of states after some steps to those before: M·r + a and M·N·M' + P.
struct SmootherMap { double M[N][N], r[N], N_[N][N], ends; };

INLINED void clear_state(double (&r)[N], double (&C)[N][N]) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) r[i] = 0.0;
  clear(C);
}

template <bool IS_ROOT> struct Step;

// r and N of Durbin and Koopman.
template <> struct Step<false> {
  double a[N], P[N][N], E_[N][N], Y[OBSERVED][N], w[OBSERVED];

  INLINED void load(const double* y, const double* Z, const double* d, const double* H,
                    const double* T, const double*) {
    set_unit(E_);
    bool seen[OBSERVED];
    differences(y, Z, d, a, seen, w);
    Gain<OBSERVED> gain;
    gain.factor(Z, H, P, seen);
    clear_unseen(seen, w);
    gain.whiten(w);
    gain.whiten(Z, seen, E_, Y);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j)
#pragma unroll UNROLL
        for (int k = 0; k < OBSERVED; ++k) E_[i][j] -= gain.X[i][k] * Y[k][j];
    multiply(T, E_);
  }

  INLINED void back(double (&r)[N], double (&C)[N][N]) const {
    transfer(E_, r, C);
#pragma unroll UNROLL
    for (int k = 0; k < OBSERVED; ++k)
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        r[i] += Y[k][i] * w[k];
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j) C[i][j] += Y[k][i] * Y[k][j];
      }
  }

  // E'·M.
  INLINED void depend(double (&M)[N][N]) const {
    double transposed[N * N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) transposed[j * N + i] = E_[i][j];
    multiply(transposed, M);
  }

  INLINED void smooth(const double (&r)[N], const double (&C)[N][N], double (&mean)[N],
                      double (&covariance)[N][N]) const {
    double later[N], added[N][N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) later[i] = r[i];
    copy(C, added);
    transfer(P, later, added);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      mean[i] = WRITES_SUMS ? r[i] : a[i] + later[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j)
        covariance[i][j] = WRITES_SUMS ? C[i][j] : P[i][j] - added[i][j];
    }
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

  INLINED static void follow(const SmootherMap& map, double (&r)[N], double (&C)[N][N]) {
    double F[N][N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) F[i][j] = map.M[j][i];
    transfer(F, r, C);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      r[i] += map.r[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) C[i][j] += map.N_[i][j];
    }
  }

  INLINED static void know_nothing(double (&r)[N], double (&C)[N][N]) { clear_state(r, C); }
  INLINED void link(const double*, SmootherMap&) const {}
};

// Removes from x its part along a unit vector.
INLINED void remove_part(const double (&unit)[N], double (&x)[N]) {
  double total = 0.0;
  for (int j = 0; j < N; ++j) total += unit[j] * x[j];
  for (int j = 0; j < N; ++j) x[j] -= total * unit[j];
}

// u and W for the root S, from those for another root `later` of its covariance, are Q·u and a root
// of Q·W·W'·Q' + rest·rest': see with_root of statespace/recurrence.py.
DEVICE __attribute__((noinline)) inline void with_root(double (&S)[N][N], double (&later)[N][N],
                                                       double (&Q)[N][N], double (&rest)[N][N]) {
  double known[N][N], later_known[N][N];
  clear(Q), set_unit(rest);
  for (int i = 0; i < N; ++i) {
    double size = 0.0;
    for (int j = 0; j < N; ++j) size += S[i][j] * S[i][j];
    size = size == 0.0 ? 1.0 : sqrt(size);
    for (int j = 0; j < N; ++j) S[i][j] /= size, later[i][j] /= size;
  }
#pragma unroll 1
  for (int count = 0; count < N; ++count) {
    int pivot = 0;
    double largest = -1.0;
    for (int i = 0; i < N; ++i) {
      double size = 0.0;
      for (int j = 0; j < N; ++j) size += S[i][j] * S[i][j];
      if (size > largest) largest = size, pivot = i;
    }
    double length = 0.0, later_length = 0.0;
    for (int j = 0; j < N; ++j)
      known[count][j] = S[pivot][j], later_known[count][j] = later[pivot][j];
    for (int i = 0; i < count; ++i)
      remove_part(known[i], known[count]), remove_part(later_known[i], later_known[count]);
    for (int j = 0; j < N; ++j) {
      length += known[count][j] * known[count][j];
      later_length += later_known[count][j] * later_known[count][j];
    }
    length = sqrt(length), later_length = sqrt(later_length);
    if (length < ROUNDING || later_length < ROUNDING) return;
    for (int j = 0; j < N; ++j) known[count][j] /= length, later_known[count][j] /= later_length;
    for (int i = 0; i < N; ++i) {
      remove_part(known[count], S[i]), remove_part(later_known[count], later[i]);
      for (int j = 0; j < N; ++j) {
        Q[i][j] += known[count][i] * later_known[count][j];
        rest[i][j] -= known[count][i] * known[count][j];
      }
    }
  }
}

// u and W of statespace/cpu/roots.py, for the roots P and `next` of predicted states.
template <> struct Step<true> {
  double a[N], P[N][N], next[N][N], M[N][N], G[N][N], k[N];

  INLINED void load(const double* y, const double* Z, const double* d, const double* R,
                    const double* T, const double* Q) {
    bool seen[OBSERVED];
    double w[OBSERVED], updated[OBSERVED + 2 * N][OBSERVED + N], predicted[2 * N][2 * N], U[N][N];
    differences(y, Z, d, a, seen, w);
    Gain<OBSERVED> gain;
    update_root(Z, R, P, seen, updated, gain, U);
    clear_unseen(seen, w);
    gain.whiten(w);
    predict_root(T, Q, U, predicted, next);
    constexpr int ROW = OBSERVED + N;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      k[i] = 0.0;
#pragma unroll UNROLL
      for (int j = 0; j < OBSERVED; ++j) k[i] += updated[ROW + i][j] * w[j];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) {
        M[i][j] = G[i][j] = 0.0;
#pragma unroll UNROLL
        for (int l = 0; l < N; ++l) {
          M[i][j] += updated[ROW + i][OBSERVED + l] * predicted[N + l][j];
          G[i][j] += updated[ROW + i][OBSERVED + l] * predicted[N + l][N + j];
        }
      }
    }
  }

  INLINED void back(double (&u)[N], double (&W)[N][N]) const { transfer(&M[0][0], k, G, u, W); }
  INLINED void depend(double (&A)[N][N]) const { multiply(&M[0][0], A); }
  INLINED void smooth(const double (&u)[N], const double (&W)[N][N], double (&mean)[N],
                      double (&covariance)[N][N]) const {
    double SW[N][N];
    copy(W, SW);
    multiply(&P[0][0], SW);
    square(SW, covariance);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) mean[i] = u[i];
    predict_mean(&P[0][0], a, mean);
  }

  // Replaces u by A·u + b and W by a root of A·W·W'·A' + G·G'.
  INLINED static void transfer(const double* A, const double (&b)[N], const double (&G)[N][N],
                               double (&u)[N], double (&W)[N][N]) {
    double array[N][2 * N];
    predict_mean(A, b, u);
    multiply(A, W);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) array[i][j] = W[i][j], array[i][N + j] = G[i][j];
    triangularise<N>(array);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) W[i][j] = array[i][j];
  }
  INLINED static void follow(const SmootherMap& map, double (&u)[N], double (&W)[N][N]) {
    transfer(&map.M[0][0], map.r, map.N_, u, W);
  }
  INLINED static void know_nothing(double (&u)[N], double (&W)[N][N]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) u[i] = 0.0;
    set_unit(W);
  }

  // The state after the step may refer to another root of the same covariance, which differs by
  // rounding from `next`: that of the next segment.
  INLINED void link(const double* later, SmootherMap& map) const {
    double S[N][N], other[N][N], Q[N][N], rest[N][N];
    copy(next, S);
    for (int i = 0; i < N * N; ++i) other[i / N][i % N] = later[i];
    with_root(S, other, Q, rest);
    copy(Q, map.M), copy(rest, map.N_);
  }
};

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

  INLINED long long index_of(const Range& range, long long step) const {
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
        const long long index = index_of(range, step);
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
        else write_state(mean, covariance, smoothed + index * N, smoothed_cov + index * N * N);
        if (is_start(range, step)) Step::know_nothing(r, C);
      }
      if (!is_staged) continue;
      stage.first_step[threadIdx.x] = range.outer * sizes.steps + start;
      stage.count[threadIdx.x] = end > start ? int(end - start) : 0;
      __syncwarp();
      stage.write(smoothed, 0, N);
      stage.write(smoothed_cov, N, N * N);
      __syncwarp();
    }
  }
};

// The Kalman filter and its summaries; see statespace/cpu/update.py for the symbols.
//
// If SQUARE_ROOT, covariances are given by lower triangular roots: see statespace/cpu/roots.py.
#pragma once

// Reflections of columns that make arrays triangular, as in statespace/cpu/roots.py.
//
// The smoother repeats the steps of the filter and needs their bits: fma is written where one
// compiler could fuse a product and a sum and another one not.

#define INLINED DEVICE __attribute__((always_inline)) inline

constexpr double ROUNDING = 0x1p-46, SMALLEST = 1e-301, NEGLIGIBLE = 1e-40;
constexpr double NOT_ROUNDING = 0x1p-48, INVALID = 0x1p-20;  // see statespace/recurrence.py

// Reflects the columns from `free` on, so that row i has only the first of them, also in all rows
// below. Returns false if the row has none.
template <int ROWS, int COLUMNS>
INLINED bool reflect(double (&A)[ROWS][COLUMNS], int i, int free) {
  double sigma = 0.0;
#pragma unroll UNROLL
  for (int j = 0; j < COLUMNS; ++j)
    if (j > free) sigma = fma(A[i][j], A[i][j], sigma);
  const double alpha = A[i][free], square = fma(alpha, alpha, sigma);
  const bool is_zero = square < SMALLEST;
  if (is_zero || sigma <= NEGLIGIBLE * square) {
    sigma = 0.0;
#pragma unroll UNROLL
    for (int j = 0; j < COLUMNS; ++j)
      if (j > free) A[i][j] = 0.0;
  }
  if (is_zero) {
    A[i][free] = 0.0;
    return false;
  }
  const double norm = sqrt(square), v = alpha <= 0.0 ? alpha - norm : -sigma / (alpha + norm);
  const double scale = v != 0.0 ? 2.0 / fma(v, v, sigma) : 0.0;
#pragma unroll UNROLL
  for (int k = 0; k < ROWS; ++k) {
    if (k <= i) continue;
    double total = v * A[k][free];
#pragma unroll UNROLL
    for (int j = 0; j < COLUMNS; ++j)
      if (j > free) total = fma(A[i][j], A[k][j], total);
    total *= scale;
    A[k][free] = fma(-total, v, A[k][free]);
#pragma unroll UNROLL
    for (int j = 0; j < COLUMNS; ++j)
      if (j > free) A[k][j] = fma(-total, A[i][j], A[k][j]);
  }
  A[i][free] = norm;
#pragma unroll UNROLL
  for (int j = 0; j < COLUMNS; ++j)
    if (j > free) A[i][j] = 0.0;
  return true;
}

// Makes the rows i..R-1 triangular, whose columns begin at `free`, in local memory: rows that add
// nothing to those before them have no columns, which are moved to the diagonal in the end.
template <int R, int ROWS, int COLUMNS>
DEVICE __attribute__((noinline)) void triangularise_from(double (&A)[ROWS][COLUMNS], int i,
                                                         int free) {
#pragma unroll 1
  for (; i < R; ++i) free += reflect(A, i, free);
  int last = free - 1;
#pragma unroll 1
  for (i = R - 1; i >= 0 && last >= 0; --i) {
    bool is_first = A[i][last] != 0.0;
    for (int k = 0; k < i; ++k) is_first = is_first && A[k][last] == 0.0;
    if (!is_first) continue;
    for (int k = 0; k < ROWS; ++k) {
      const double moved = A[k][last];
      A[k][last] = A[k][i];
      A[k][i] = moved;
    }
    --last;
  }
}

// Makes the first R rows lower triangular by reflections of columns, also in all other rows.
template <int R, int ROWS, int COLUMNS>
INLINED void triangularise(double (&A)[ROWS][COLUMNS], bool has_zeros = false) {
  int next = 0;
#pragma unroll UNROLL
  for (int i = 0; i < R; ++i)
    if (!has_zeros && next == i && reflect(A, i, i)) next = i + 1;
  if (next == R) return;
  // A copy: dynamic indices would move the array itself out of registers.
  double local[ROWS][COLUMNS];
#pragma unroll UNROLL
  for (int i = 0; i < ROWS; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < COLUMNS; ++j) local[i][j] = A[i][j];
  triangularise_from<R>(local, next + !has_zeros, next);
#pragma unroll UNROLL
  for (int i = 0; i < ROWS; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < COLUMNS; ++j) A[i][j] = local[i][j];
}

constexpr double LOG_2_PI = 1.8378770664093453, CLOSE = 4 * 0x1p-52;
constexpr int STEADY_STEPS = 16;

// Whether the variance of an entry, given those before it, is more than rounding: see
// statespace/cpu/update.py.
INLINED bool has_variance(const double* Z, double noise, const double (&P)[N][N],
                          double variance, double remainder) {
  // Differences: those of inf are nan, which is no rounding.
  if (noise != 0.0 && !(remainder - NOT_ROUNDING * variance <= 0.0)) return true;
  double scale = 0.0;
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) scale += Z[i] * Z[i] * (noise != 0.0 ? fabs(P[i][i]) : P[i][i]);
  if (noise != 0.0) return remainder < -INVALID * (fabs(noise) + N * scale);
  return !(remainder - ROUNDING * N * scale <= 0.0);
}

// Whether an entry has no noise of its own, given the noise of those before it. Entries that are
// seen are bits of a number: the address of an array would move it out of registers.
template <int M>
DEVICE __attribute__((noinline)) bool has_exact_observation(const double* H, unsigned seen) {
  double L[M][M];
  for (int k = 0; k < M; ++k) {
    if (!(seen >> k & 1)) continue;
    for (int c = 0; c <= k; ++c) {
      if (!(seen >> c & 1)) continue;
      double total = 0.5 * (H[k * M + c] + H[c * M + k]);
      for (int j = 0; j < c; ++j)
        if (seen >> j & 1) total -= L[k][j] * L[c][j];
      if (c == k && total <= NOT_ROUNDING * H[k * M + k]) return true;
      L[k][c] = c == k ? sqrt(total) : total / L[c][c];
    }
  }
  return false;
}

// Sets the covariances of a state to 0.
INLINED void forget_state(double (&P)[N][N], int state) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j)
      if (i == state || j == state) P[i][j] = 0.0;
}

// The update of a state by M entries of an observation. Those that are not `seen` have no effect.
// Those without a variance of their own are removed from `seen`.
template <int M> struct Gain {
  double L[M][M], X[N][M], log_determinant;
  INLINED void factor(const double* Z, const double* H, const double (&P)[N][N], bool (&seen)[M]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int k = 0; k < M; ++k) {
        double total = 0.0;
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j) total += P[i][j] * Z[k * N + j];
        X[i][k] = seen[k] ? total : 0.0;
      }
    log_determinant = 0.0;
#pragma unroll UNROLL
    for (int k = 0; k < M; ++k) {
#pragma unroll UNROLL
      for (int c = 0; c < M; ++c) {
        if (c > k) continue;
        double total = 0.5 * (H[k * M + c] + H[c * M + k]);
#pragma unroll UNROLL
        for (int i = 0; i < N; ++i) total += Z[k * N + i] * X[i][c];
        if (!seen[k] || !seen[c]) total = k == c ? 1.0 : 0.0;
        const double variance = total;
#pragma unroll UNROLL
        for (int j = 0; j < M; ++j)
          if (j < c) total -= L[k][j] * L[c][j];
        if (k == c && seen[k] && !has_variance(Z + k * N, H[k * M + k], P, variance, total)) {
          seen[k] = false, total = 1.0;
#pragma unroll UNROLL
          for (int j = 0; j < M; ++j)
            if (j < k) L[k][j] = 0.0;
#pragma unroll UNROLL
          for (int i = 0; i < N; ++i) X[i][k] = 0.0;
        }
        L[k][c] = k == c ? sqrt(total) : total / L[c][c];
      }
    }
#pragma unroll UNROLL
    for (int k = 0; k < M; ++k)
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        double total = X[i][k];
#pragma unroll UNROLL
        for (int j = 0; j < M; ++j)
          if (j < k) total -= X[i][j] * L[k][j];
        X[i][k] = total / L[k][k];
      }
  }
  INLINED void measure() {
    log_determinant = 0.0;
#pragma unroll UNROLL
    for (int k = 0; k < M; ++k) log_determinant += 2.0 * log(L[k][k]);
  }
  // L⁻¹·v.
  INLINED void whiten(double (&v)[M]) const {
#pragma unroll UNROLL
    for (int k = 0; k < M; ++k) {
#pragma unroll UNROLL
      for (int j = 0; j < M; ++j)
        if (j < k) v[k] -= L[k][j] * v[j];
      v[k] /= L[k][k];
    }
  }
  // L⁻¹·Z·A.
  INLINED void whiten(const double* Z, const bool (&seen)[M], const double (&A)[N][N],
                     double (&Y)[M][N]) const {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int k = 0; k < M; ++k) {
        double total = 0.0;
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j) total += Z[k * N + j] * A[j][i];
        if (!seen[k]) total = 0.0;
#pragma unroll UNROLL
        for (int j = 0; j < M; ++j)
          if (j < k) total -= L[k][j] * Y[j][i];
        Y[k][i] = total / L[k][k];
      }
  }
  INLINED void correct(const double* H, const bool (&seen)[M], const double (&P)[N][N],
                       double (&filtered)[N][N]) const {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) {
        if (j > i) continue;
        double total = P[i][j];
#pragma unroll UNROLL
        for (int k = 0; k < M; ++k) total -= X[i][k] * X[j][k];
        filtered[i][j] = filtered[j][i] = total;
      }
    unsigned of_seen = 0;
#pragma unroll UNROLL
    for (int k = 0; k < M; ++k) of_seen |= unsigned(seen[k]) << k;
    // What remains after an exact observation is rounding.
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
      if (filtered[i][i] <= ROUNDING * P[i][i] && has_exact_observation<M>(H, of_seen))
        forget_state(filtered, i);
  }
  INLINED void add(const double (&w)[M], double (&a)[N]) const {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int k = 0; k < M; ++k) a[i] += X[i][k] * w[k];
  }
};

INLINED void set_unit(double (&A)[N][N]) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) A[i][j] = i == j ? 1.0 : 0.0;
}

INLINED void clear(double (&A)[N][N]) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) A[i][j] = 0.0;
}

INLINED void copy(const double (&from)[N][N], double (&to)[N][N]) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) to[i][j] = from[i][j];
}

template <int M>
INLINED bool differences(const double* y, const double* Z, const double* d,
                               const double (&a)[N], bool (&seen)[M], double (&v)[M]) {
  bool all = true;
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) {
    double predicted = d[k];
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) predicted += Z[k * N + j] * a[j];
    seen[k] = y[k] == y[k];
    v[k] = seen[k] ? y[k] - predicted : 0.0;
    all = all && seen[k];
  }
  return all;
}

INLINED void multiply(const double* T, double (&A)[N][N]) {
#pragma unroll UNROLL
  for (int j = 0; j < N; ++j) {
    double column[N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      column[i] = 0.0;
#pragma unroll UNROLL
      for (int k = 0; k < N; ++k) column[i] += T[i * N + k] * A[k][j];
    }
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) A[i][j] = column[i];
  }
}

INLINED void predict_mean(const double* T, const double* c, double (&a)[N]) {
  double next[N];
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) {
    next[i] = c[i];
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) next[i] += T[i * N + j] * a[j];
  }
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) a[i] = next[i];
}

// T·C·T' + Q.
INLINED void predict_covariance(const double* T, const double* Q, const double (&C)[N][N],
                                      double (&P)[N][N]) {
  double work[N][N];
  copy(C, work);
  multiply(T, work);
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
        if (j > i) continue;
      double total = 0.5 * (Q[i * N + j] + Q[j * N + i]);
#pragma unroll UNROLL
      for (int k = 0; k < N; ++k) total += work[i][k] * T[j * N + k];
      P[i][j] = P[j][i] = total;
    }
  // Without noise of its own, a state may be known exactly.
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) {
    if (Q[i * N + i] != 0.0) continue;
    double scale = 0.0;
#pragma unroll UNROLL
    for (int k = 0; k < N; ++k) scale += T[i * N + k] * T[i * N + k] * C[k][k];
    if (P[i][i] - ROUNDING * N * scale <= 0.0) forget_state(P, i);
  }
}

// A bound of the square of a row of A·S, whose terms may cancel.
INLINED double size_of_product(const double* row, const double (&S)[N][N]) {
  double scale = 0.0;
#pragma unroll UNROLL
  for (int k = 0; k < N; ++k) {
    double total = 0.0;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) total = fma(S[k][j], S[k][j], total);
    scale = fma(row[k] * row[k], total, scale);
  }
  return N * scale;
}

// Writes [R  Z·S] and [0  S] to A, and rows of a unit matrix below.
template <int M, int ROWS>
INLINED void fill_update(const double* Z, const double* root, const double (&S)[N][N],
                         const bool (&seen)[M], double (&A)[ROWS][M + N]) {
  double noise[M][M];
  bool all = true;
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) {
    all = all && seen[k];
#pragma unroll UNROLL
    for (int j = 0; j < M; ++j) noise[k][j] = seen[k] ? root[k * M + j] : 0.0;
  }
  if (M > 1 && !all) triangularise<M>(noise, true);
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) {
#pragma unroll UNROLL
    for (int j = 0; j < M; ++j) A[k][j] = !seen[k] && j == k ? 1.0 : noise[k][j];
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      double total = 0.0;
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i)
        if (i >= j) total = fma(Z[k * N + i], S[i][j], total);
      A[k][M + j] = seen[k] ? total : 0.0;
    }
  }
#pragma unroll UNROLL
  for (int i = 0; i < ROWS - M; ++i) {
#pragma unroll UNROLL
    for (int j = 0; j < M; ++j) A[M + i][j] = 0.0;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) A[M + i][M + j] = i < N ? S[i % N][j] : i == N + j ? 1.0 : 0.0;
  }
}

// Removes the first entry whose pivot is only rounding from `seen`; returns whether there is one.
template <int M, int ROWS>
INLINED bool remove_without_variance(const double* Z, const double* root, const double (&S)[N][N],
                          const double (&A)[ROWS][M + N], bool (&seen)[M]) {
  bool removes = false;
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) {
    double size = 0.0;
    bool is_exact = true;
#pragma unroll UNROLL
    for (int j = 0; j < M; ++j) {
      if (j <= k) size = fma(A[k][j], A[k][j], size);
      is_exact = is_exact && root[k * M + j] == 0.0;
    }
    if (is_exact) size = fmax(size, size_of_product(Z + k * N, S));
    if (!removes && seen[k] && A[k][k] * A[k][k] - ROUNDING * ROUNDING * size <= 0.0)
      seen[k] = false, removes = true;
  }
  return removes;
}

// The factors of the update of a state of root S, and the root U after it. A has M + N rows, or N
// more, which are those of a unit matrix at first. Entries without a variance of their own are
// removed from `seen`.
template <int M, int ROWS>
INLINED void update_root(const double* Z, const double* root, const double (&S)[N][N],
                         bool (&seen)[M], double (&A)[ROWS][M + N], Gain<M>& gain,
                         double (&U)[N][N]) {
#pragma unroll 1
  do {
    fill_update(Z, root, S, seen, A);
    triangularise<M + N>(A);
  } while (remove_without_variance(Z, root, S, A, seen));
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k)
#pragma unroll UNROLL
    for (int j = 0; j < M; ++j)
      if (j <= k) gain.L[k][j] = A[k][j];
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) {
#pragma unroll UNROLL
    for (int k = 0; k < M; ++k) gain.X[i][k] = A[M + i][k];
    double size = 0.0, remainder = 0.0;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      size = fma(S[i][j], S[i][j], size);
      remainder = fma(A[M + i][M + j], A[M + i][M + j], remainder);
    }
    // An observation without noise: what remains is rounding.
    const bool is_rounding = remainder <= ROUNDING * ROUNDING * size;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) U[i][j] = is_rounding ? 0.0 : A[M + i][M + j];
  }
}

// The root S of the state after a transition. A has N rows, or N more, which are those of a unit
// matrix at first.
template <int ROWS>
INLINED void predict_root(const double* T, const double* root, const double (&U)[N][N],
                          double (&A)[ROWS][2 * N], double (&S)[N][N]) {
#pragma unroll UNROLL
  for (int i = 0; i < ROWS; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      double total = i == N + j ? 1.0 : 0.0;
#pragma unroll UNROLL
      for (int k = 0; k < N; ++k)
        if (i < N && k >= j) total = fma(T[i * N + k], U[k][j], total);
      A[i][j] = total;
      A[i][N + j] = i < N ? root[i * N + j] : 0.0;
    }
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) {
    double size = 0.0;
    bool is_exact = true;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      size = fma(A[i][j], A[i][j], size);
      is_exact = is_exact && root[i * N + j] == 0.0;
    }
    // Without noise of its own, a state may be known exactly.
    const bool is_known =
        is_exact && size - ROUNDING * ROUNDING * size_of_product(T + i * N, U) <= 0.0;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j)
      if (is_known) A[i][j] = 0.0;
  }
  triangularise<N>(A);
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) S[i][j] = A[i][j];
}

// S·S'.
INLINED void square(const double (&S)[N][N], double (&P)[N][N]) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      if (j > i) continue;
      double total = 0.0;
#pragma unroll UNROLL
      for (int k = 0; k < N; ++k) total += S[i][k] * S[j][k];
      P[i][j] = P[j][i] = total;
    }
}

// The update of a covariance, or of its root, by entries of an observation.
// Returns whether it removes entries without a variance of their own from `seen`.
template <int M>
INLINED bool update(const double* Z, const double* H, const double (&P)[N][N], bool (&seen)[M],
                    Gain<M>& gain, double (&filtered)[N][N]) {
  bool was_seen[M], removes = false;
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) was_seen[k] = seen[k];
  if (SQUARE_ROOT) {
    double A[M + N][M + N];
    update_root(Z, H, P, seen, A, gain, filtered);
  } else {
    gain.factor(Z, H, P, seen);
    gain.correct(H, seen, P, filtered);
  }
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) removes = removes || seen[k] != was_seen[k];
  return removes;
}

// Sets the differences of entries without a variance of their own to 0.
template <int M> INLINED void clear_unseen(const bool (&seen)[M], double (&v)[M]) {
#pragma unroll UNROLL
  for (int k = 0; k < M; ++k) v[k] = seen[k] ? v[k] : 0.0;
}

// The covariance after a transition, or its root.
INLINED void predict(const double* T, const double* Q, const double (&C)[N][N],
                     double (&P)[N][N]) {
  if (SQUARE_ROOT) {
    double A[N][2 * N];
    predict_root(T, Q, C, A, P);
  } else {
    predict_covariance(T, Q, C, P);
  }
}

// What a state after an earlier step contributes: the mean A·x + a, and the likelihood of x,
// exp(eta·x − x·J·x / 2), or that of numbers eta = J'·x with noise of variance 1.
struct Dependence {
  double A[N][N], eta[N], J[N][N];
  template <int M>
  INLINED void observe(const Gain<M>& gain, const double* Z, const bool (&seen)[M],
                      const double (&w)[M]) {
    double Y[M][N];
    gain.whiten(Z, seen, A, Y);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int k = 0; k < M; ++k)
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j) A[i][j] -= gain.X[i][k] * Y[k][j];
    if (SQUARE_ROOT) add_root(Y, w);
    else add(Y, w);
  }
  template <int M> INLINED void add(const double (&Y)[M][N], const double (&w)[M]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int k = 0; k < M; ++k) {
        eta[i] += Y[k][i] * w[k];
#pragma unroll UNROLL
        for (int j = 0; j < N; ++j) J[i][j] += Y[k][i] * Y[k][j];
      }
  }
  template <int M> INLINED void add_root(const double (&Y)[M][N], const double (&w)[M]) {
    double array[N + 1][N + M];
#pragma unroll UNROLL
    for (int i = 0; i <= N; ++i) {
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) array[i][j] = i < N ? J[i % N][j] : eta[j];
#pragma unroll UNROLL
      for (int k = 0; k < M; ++k) array[i][N + k] = i < N ? Y[k][i % N] : w[k];
    }
    triangularise<N>(array);
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      eta[i] = array[N][i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) J[i][j] = array[i][j];
    }
  }
};

// A map of states after one step to those after a later one, in memory. Its growth is infinite if it
// loses digits, or is composed of a map that does.
struct Map {
  double A[N][N], a[N], P[N][N], eta[N], J[N][N], starts, growth;
};

// The largest entry of A so far; infinite if there is nan.
INLINED double growth_of(const double (&A)[N][N], double growth) {
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j)
      if (!(fabs(A[i][j]) <= growth)) growth = A[i][j] == A[i][j] ? fabs(A[i][j]) : infinity<double>();
  return growth;
}

// Whether states grow so much that their map loses digits, as in statespace/cpu/phases.py. A bound on
// the largest eigenvalue, from A to the power of 8, hardly changes with the units of states.
DEVICE inline bool loses_digits(const double (&A)[N][N], double growth, const double (&J)[N][N]) {
  double trace = 0.0;
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i) trace += J[i][i];
  if (!(growth < 1e8) || !(trace < infinity<double>())) return true;
  if (growth * N <= 100.0) return false;
  double power[N][N], factor[N * N];
  copy(A, power);
  for (int k = 0; k < 3; ++k) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) factor[i * N + j] = power[i][j];
    multiply(factor, power);
  }
  return !(growth_of(power, 0.0) * N <= 1e16);
}

INLINED bool is_close(const double (&P)[N][N], const double (&Q)[N][N]) {
  bool close = true;
#pragma unroll UNROLL
  for (int i = 0; i < N; ++i)
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
        if (j > i) continue;
      const double change = fabs(P[i][j] - Q[i][j]);
      // One root of the product could overflow.
      const double size = sqrt(P[i][i]) * sqrt(P[j][j]);
      close = close && change < infinity<double>() && change <= CLOSE * size;
    }
  return close;
}

  INLINED void read_state(const double* state, double (&a)[N], double (&C)[N][N]) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      a[i] = state[i];
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) C[i][j] = state[N + i * N + j];
    }
  }
  template <class R>
  INLINED void write_state(const double (&a)[N], const double (&C)[N][N], R* mean, R* covariance) {
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      mean[i] = R(a[i]);
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) covariance[i * N + j] = R(C[i][j]);
    }
  }

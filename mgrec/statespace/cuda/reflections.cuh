// Reflections of columns that make arrays triangular, as in statespace/cpu/roots.py.
//
// The smoother repeats the steps of the filter and needs their bits: fma is written where one
// compiler could fuse a product and a sum and another one not.
#pragma once

#define INLINED DEVICE __attribute__((always_inline)) inline

constexpr double ROUNDING = 0x1p-46, SMALLEST = 1e-301, NEGLIGIBLE = 1e-40;

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

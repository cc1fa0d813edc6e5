// Lower triangular roots S of the symmetric parts of covariances P: see lower_root of
// statespace/roots.py.

extern "C" __global__ void root_kernel(const double* P, double* S, long long count, double least) {
  const long long number = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (number >= count) return;
  P += number * N * N;
  S += number * N * N;
  for (int j = 0; j < N; ++j) {
    double column = 0.0;
    for (int i = 0; i < N; ++i) {
      if (i < j) {
        S[i * N + j] = 0.0;
        continue;
      }
      double remainder = 0.5 * (P[i * N + j] + P[j * N + i]);
      for (int k = 0; k < j; ++k) remainder -= S[i * N + k] * S[j * N + k];
      if (i == j) {
        const double scale = N * P[j * N + j];
        if (remainder < -least * scale) column = not_a_number<double>();
        else column = remainder <= 0x1p-52 * scale ? 0.0 : 1.0 / sqrt(remainder);
      }
      S[i * N + j] = remainder * column;
    }
  }
}

// The messages of shards of matrix maps, which are solved from a state of 0 before they are exchanged.
//
// A message has the state after a shard, and 1 if that does not depend on the state before it: the
// product of the matrices of its first steps takes every finite state to 0.
#pragma once
#include "engines/cuda/message.cuh"

constexpr double MOST_STATE = 0x1p500, MOST_OFFSET = 0x1p900;

// A product of matrices: entries of at most 1 times 2^exponent, nan if one is not finite.
struct Product {
  double entries[N][N], exponent;

  DEVICE static Product identity() {
    Product product = {};
    for (int i = 0; i < N; ++i) product.entries[i][i] = 1;
    return product;
  }
  // Multiply by the matrix of a later step.
  DEVICE void then(const double (&later)[N][N], double later_exponent) {
    double entries_now[N][N], largest = 0, total = 0;
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        double sum = 0;
#pragma unroll
        for (int k = 0; k < N; ++k) sum += later[i][k] * entries[k][j];
        entries_now[i][j] = sum;
        largest = fmax(largest, fabs(sum)), total += sum - sum;
      }
    int bits;
    frexp(largest, &bits);
    exponent += later_exponent + bits + total;
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int j = 0; j < N; ++j) entries[i][j] = ldexp(entries_now[i][j], -bits);
  }
  DEVICE bool vanishes() const {
    double largest = 0;
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) largest = fmax(largest, fabs(entries[i][j]));
    // The exponent is nan after an entry that is not finite.
    return exponent < VANISHED || (largest == 0 && exponent == exponent);
  }
};

// Return the product of the matrices of `count` steps; all threads of the block have parts of them.
DEVICE inline Product product_of(const double* matrices, long long count) {
  __shared__ Product parts[THREADS];
  const long long steps = (count + THREADS - 1) / THREADS, start = threadIdx.x * steps;
  Product product = Product::identity();
  for (long long k = start; k < start + steps && k < count; ++k) {
    const double* from = matrices + (REVERSE ? count - 1 - k : k) * N * N;
    double matrix[N][N];
#pragma unroll
    for (int e = 0; e < N * N; ++e) matrix[e / N][e % N] = from[e];
    product.then(matrix, 0);
  }
  for (int apart = 1; apart < THREADS; apart *= 2) {
    parts[threadIdx.x] = product;
    __syncthreads();
    const int other = threadIdx.x + apart;
    if (threadIdx.x % (2 * apart) == 0 && other < THREADS) product.then(parts[other].entries, parts[other].exponent);
    __syncthreads();
  }
  return product;
}

// `matrices` and `states` are those of the first `count` steps, `last` is the state after the shard,
// and `initial` the true one before the first shard; null for others.
extern "C" __global__ void __launch_bounds__(THREADS) message_kernel(
    const double* matrices, const double* states, long long count, const double* last,
    const double* initial, long long digest, char* start) {
  const Message<double> message(start);
  message.write_header(digest, 1);
  bool suffices = product_of(matrices, count).vanishes();
  if (threadIdx.x > 0) return;
  const double* after = states + (REVERSE ? 0 : (count - 1) * N);
  for (int i = 0; i < N; ++i) {
    suffices = suffices && fabs(after[i]) < MOST_OFFSET && fabs(last[i]) < MOST_STATE;
    suffices = suffices && (!initial || fabs(initial[i]) < MOST_STATE);
    message.rows[i] = last[i] + 0.0;
  }
  message.rows[N] = suffices;
}

// Writes the state before a shard, and in `status` 1 if the messages suffice, else 2.
extern "C" __global__ void propagate_kernel(char* start, long long stride, int rank, int size,
                                            long long digest, const double* initial, double* before,
                                            long long* status) {
  const Messages<double> messages{start, stride};
  bool fails = !messages.agree(size, digest);
  for (int k = 0; k < size; ++k) fails = fails || messages.of(k).rows[N] != 1;
  const int previous = REVERSE ? rank + 1 : rank - 1;
  const double* states = previous < 0 || previous == size ? initial : messages.of(previous).rows;
  if (threadIdx.x < N) before[threadIdx.x] = states[threadIdx.x];
  report(fails, status);
}

// Gradients of the diagonals of real systems along the last axis, from the solution of the adjoint system.
#pragma once
#include "tridiagonal/cuda/numbers.cuh"

DEVICE inline void store(T* to, const Word& word, int length) {
  if (!to) return;
  if (length == PACK) *reinterpret_cast<Word*>(to) = word;
  else
    for (int r = 0; r < length; ++r) to[r] = word.v[r];
}
extern "C" __global__ void __launch_bounds__(THREADS) products_kernel(
    const T* solution, const T* x, T* of_dl, T* of_d, T* of_du, long long count, long long steps) {
  const long long first = (blockIdx.x * (long long)THREADS + threadIdx.x) * PACK;
  if (first >= count) return;
  const int length = count - first < PACK ? int(count - first) : PACK;
  Word factor = {}, below, middle, above;
  if (length == PACK) factor = *reinterpret_cast<const Word*>(solution + first);
  else
    for (int r = 0; r < length; ++r) factor.v[r] = solution[first + r];
  // A division of 64 bits would take as long as the loads.
  long long step = first;
  if (steps < count) step = count >> 32 ? first % steps : unsigned(first) % unsigned(steps);
#pragma unroll
  for (int r = 0; r < PACK; ++r) {
    const long long k = first + r;
    const bool is_there = r < length, has_before = step > 0, has_after = step < steps - 1;
    const T minus = -factor.v[r];
    below.v[r] = is_there && has_before ? minus * x[k - 1] : T(0);
    middle.v[r] = is_there ? minus * x[k] : T(0);
    above.v[r] = is_there && has_after ? minus * x[k + 1] : T(0);
    if (++step == steps) step = 0;
  }
  store(of_dl ? of_dl + first : of_dl, below, length);
  store(of_d ? of_d + first : of_d, middle, length);
  store(of_du ? of_du + first : of_du, above, length);
}

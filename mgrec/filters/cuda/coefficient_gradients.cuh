// The gradients of b and a from the sums of all blocks, (blocks, 2, COUNT): those over x and over y.
#pragma once
#include "filters/cuda/sum_of_block.cuh"

// Conjugate coefficients, divided by the one of a_0.
struct Coefficients {
  S numerator[COUNT], denominator[COUNT], scale;
};

// Return a number as T: its real part if T is real.
template <class T, class V> DEVICE T gradient_of(V value) {
  if constexpr (is_real<T>::value && !is_real<V>::value) return T(value.re);
  else return cast<T>(value);
}

// A result at address 0 is not written.
extern "C" __global__ void __launch_bounds__(THREADS) coefficient_gradients_kernel(
    const S* sums, B* of_b, A* of_a, const Coefficients coefficients) {
  __shared__ S parts[THREADS];
  S of_first = S(0);
  for (int k = 0; k < 2 * COUNT; ++k) {
    S value = S(0);
    for (long long block = threadIdx.x; block < BLOCKS; block += THREADS)
      value = value + sums[block * (2 * COUNT) + k];
    const S total = sum_of_block(value, parts), scaled = total * coefficients.scale;
    const int lag = k % COUNT;
    if (k < COUNT && lag < B_COUNT) {
      of_first = of_first - total * coefficients.numerator[lag];
      if (threadIdx.x == 0 && of_b) of_b[lag] = gradient_of<B>(scaled);
    } else if (k >= COUNT && lag > 0 && lag < A_COUNT) {
      of_first = of_first + total * coefficients.denominator[lag];
      if (threadIdx.x == 0 && of_a) of_a[lag] = gradient_of<A>(np_negative(scaled));
    }
  }
  // a_0 is divided by itself, and divides all others.
  if (threadIdx.x == 0 && of_a) of_a[0] = gradient_of<A>(of_first * coefficients.scale);
}

#pragma once

// Return the sum of the values of all threads of a block, to each thread.
DEVICE inline S sum_of_block(S value, S (&parts)[THREADS]) {
  parts[threadIdx.x] = value;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] = parts[threadIdx.x] + parts[threadIdx.x + half];
    __syncthreads();
  }
  const S total = parts[0];
  __syncthreads();
  return total;
}

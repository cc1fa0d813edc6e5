// Every thread solves one system in memory.
extern "C" __global__ void __launch_bounds__(THREADS) memory_kernel(const Systems all) {
  const long long number = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (number >= all.count()) return;
  const SystemIndex system(all, number);
  T *result = system.result(all), *stored_p = all.scratch + (result - all.result);
  Sweep sweep;
  for (long long i = 0; i < all.steps; ++i) {
    sweep.take(equation(all, system, i));
    stored_p[i * all.inner] = sweep.p;
    result[i * all.inner] = sweep.q;
  }
  T x = beyond(all, system, sweep);
  for (long long i = all.steps - 1; i >= 0; --i)
    result[i * all.inner] = x = minus_product(result[i * all.inner], stored_p[i * all.inner], x);
}

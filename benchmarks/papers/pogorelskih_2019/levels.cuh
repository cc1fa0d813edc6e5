// SERICR of a system by one thread, as in the reference. Levels of up to ON_CHIP rows are in shared
// memory. All levels are stored, or only two of them, which are recomputed (AGAIN) from the operands
// for each level of unknowns.
struct Levels {
  const Systems& all;
  const SystemIndex& system;
  long long in_memory = 0;  // rows of the levels stored below

  DEVICE Level level(int number) const {
    const long long count = all.steps >> number, systems = all.count();
    if (number == 0) return {nullptr, count, 0, 0};
    long long first = number % 2 == 1 ? 0 : all.steps / 2;
    if (!AGAIN) {
      first = 0;
      for (int below = 1; below < number; ++below) first += all.steps >> below;
    }
    if (count > ON_CHIP) {
      // Systems are adjacent, so that neighbouring threads have neighbouring numbers.
      T* data = all.scratch + first * 4 * systems + system.number;
      return {data, count, systems, systems * count};
    }
    first = AGAIN ? number % 2 * ON_CHIP : 0;
    if (!AGAIN)
      for (int below = 1; below < number; ++below)
        if (all.steps >> below <= ON_CHIP) first += all.steps >> below;
    const int threads = blockDim.x;
    T* data = (T*)shared_bytes + first * 4 * threads + threadIdx.x;
    return {data, count, threads, threads * count};
  }
  DEVICE void raise(int number) const {
    const Level from = level(number - 1), to = level(number);
    for (long long i = 0; i < to.count; ++i) store_row(to, i, raised(all, system, from, i));
  }
};

extern "C" __global__ void __launch_bounds__(THREADS) levels_kernel(const Systems all) {
  const long long number = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (number >= all.count()) return;
  const SystemIndex system(all, number);
  const Levels levels = {all, system};
  bool is_bad = false;
  for (long long i = 0; i < all.steps; ++i) note(all, system, equation(all, system, i));
  int top = 0;
  while (all.steps >> (top + 1)) levels.raise(++top);
  // x of row i of a level is that of row (i + 1)·2^level - 1 of the system.
  T* result = system.result(all);
  for (int level = top; level >= 0; --level) {
    if (AGAIN)
      for (int below = 1; below <= level && level < top; ++below) levels.raise(below);
    const Level from = levels.level(level);
    const auto x = [&](long long i, int level) -> T& {
      return result[(((i + 1) << level) - 1) * all.inner];
    };
    for (long long i = 0; 2 * i < from.count; ++i)
      lower(all, system, from, i, [&](long long k) { return x(k, level + 1); }, is_bad,
            [&](long long k, T value) { x(k, level) = value; });
  }
  const bool is_known = all.has_finite(number);
  if (is_bad && is_known) all.note_singular(number);
  for (long long i = 0; !is_known && i < all.steps; ++i) result[i * all.inner] = nan_of();
}

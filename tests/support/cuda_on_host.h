// CUDA kernels as functions of this machine, a fiber a thread, block after block.
//
// Fibers run in turns, each until it waits. A shuffle is met once every thread has had its turn, so
// that all threads of a warp must wait equally often; a barrier, once every thread is there.
#define SHARED_BY static
#include "cuda_fibers_on_host.h"

struct ulonglong2 { unsigned long long x, y; };
struct uint4 { unsigned x, y, z, w; };

static bool waits[MOST_FIBERS];  // at a barrier

inline void __syncthreads() {
  waits[threadIdx.x] = true;
  wait_for_others();
}
static bool votes[MOST_FIBERS];
inline bool __syncthreads_or(bool vote) {
  votes[threadIdx.x] = vote;
  __syncthreads();
  bool any = false;
  for (unsigned t = 0; t < blockDim.x; ++t) any = any || votes[t];
  __syncthreads();
  return any;
}
inline int __reduce_max_sync(unsigned mask, int value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const int other = __shfl_sync(mask, value, int(threadIdx.x % 32) ^ distance);
    value = other > value ? other : value;
  }
  return value;
}
inline int __dp4a(int x, int y, int sum) {
  for (int byte = 0; byte < 32; byte += 8) sum += (signed char)(x >> byte) * (signed char)(y >> byte);
  return sum;
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  const unsigned long long before = *address;
  *address += value;
  return before;
}
inline void atomicMax(unsigned long long* address, unsigned long long value) {
  if (*address < value) *address = value;
}

inline void atomicMax(int* address, int value) {
  if (*address < value) *address = value;
}
inline void atomicMin(unsigned long long* address, unsigned long long value) {
  if (*address > value) *address = value;
}

static Fiber all_fibers[MOST_FIBERS];
static char all_stacks[MOST_FIBERS][STACK];

static void run_block() {
  fibers = all_fibers;
  stacks = all_stacks[0];
  memset(ended, 0, sizeof(ended));
  memset(waits, 0, sizeof(waits));
  for (bool any = true; any;) {
    any = false;
    bool all_wait = true;
    for (unsigned t = 0; t < blockDim.x; ++t) {
      if (ended[t]) continue;
      any = true;
      if (waits[t]) continue;
      all_wait = false;
      resume(t);
    }
    if (all_wait) memset(waits, 0, sizeof(waits));
  }
}

template <auto KERNEL, class... A> void launch_as(void (*)(A...), int blocks, int threads, void** arguments) {
  gridDim.x = blocks;
  blockDim.x = threads;
  body_arguments = arguments;
  body = [](void* all) {
    call(KERNEL, static_cast<void**>(all), index_sequence_for<A...>());
  };
  for (int b = 0; b < blocks; ++b) {
    blockIdx.x = b;
    run_block();
  }
}
template <auto KERNEL> void launch(int blocks, int threads, void** arguments) {
  launch_as<KERNEL>(KERNEL, blocks, threads, arguments);
}

// CUDA kernels as functions of this machine, a fiber a thread, block after block.
//
// Fibers run in turns, each until it waits. A shuffle is met once every thread has had its turn, so
// that all threads of a warp must wait equally often; a barrier, once every thread is there.
#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <utility>
using namespace std;

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index { unsigned x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
struct ulonglong2 { unsigned long long x, y; };

constexpr int MOST_FIBERS = 1024, STACK = 1 << 16;
static ucontext_t scheduler, fibers[MOST_FIBERS];
static bool ended[MOST_FIBERS];
static char stacks[MOST_FIBERS][STACK];
static char exchanged[MOST_FIBERS][8];
static void (*body)(void*);
static void* body_arguments;

static bool waits[MOST_FIBERS];  // at a barrier

static void wait_for_others() {
  const unsigned mine = threadIdx.x;
  swapcontext(&fibers[mine], &scheduler);
}
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
inline void __syncwarp() { wait_for_others(); }
template <class V> inline V __shfl_sync(unsigned, V value, int lane) {
  memcpy(exchanged[threadIdx.x], &value, sizeof(V));
  wait_for_others();
  V theirs;
  memcpy(&theirs, exchanged[threadIdx.x / 32 * 32 + lane], sizeof(V));
  wait_for_others();
  return theirs;
}
template <class V> inline V __shfl_up_sync(unsigned mask, V value, int distance) {
  const int lane = int(threadIdx.x % 32) - distance;
  return __shfl_sync(mask, value, lane < 0 ? int(threadIdx.x % 32) : lane);
}
template <class V> inline V __shfl_down_sync(unsigned mask, V value, int distance) {
  const int lane = int(threadIdx.x % 32) + distance;
  return __shfl_sync(mask, value, lane > 31 ? int(threadIdx.x % 32) : lane);
}
inline bool __any_sync(unsigned, bool) { __builtin_trap(); }
inline bool __all_sync(unsigned, bool vote) {
  votes[threadIdx.x] = vote;
  wait_for_others();
  bool all = true;
  for (unsigned t = threadIdx.x / 32 * 32; t < threadIdx.x / 32 * 32 + 32; ++t) all = all && votes[t];
  wait_for_others();
  return all;
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

inline void atomicMin(unsigned long long* address, unsigned long long value) {
  if (*address > value) *address = value;
}

static void fiber() {
  body(body_arguments);
  ended[threadIdx.x] = true;
}

static void run_block() {
  for (unsigned t = 0; t < blockDim.x; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks[t];
    fibers[t].uc_stack.ss_size = STACK;
    fibers[t].uc_link = &scheduler;
    makecontext(&fibers[t], fiber, 0);
    ended[t] = waits[t] = false;
  }
  for (bool any = true; any;) {
    any = false;
    bool all_wait = true;
    for (unsigned t = 0; t < blockDim.x; ++t) {
      if (ended[t]) continue;
      any = true;
      if (waits[t]) continue;
      all_wait = false;
      threadIdx.x = t;
      swapcontext(&scheduler, &fibers[t]);
    }
    if (all_wait) memset(waits, 0, sizeof(waits));
  }
}

template <class... A, size_t... K>
void call(void (*kernel)(A...), void** arguments, index_sequence<K...>) {
  kernel(*static_cast<A*>(arguments[K])...);
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

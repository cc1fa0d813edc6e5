// CUDA kernels whose blocks wait for each other, on this machine: a thread a block, a fiber a thread.
//
// As in cuda_on_host.h fibers run in turns. Those of a warp wait equally often, so that shuffles meet;
// those that wait at a named barrier all leave it in the turn after its last one has come.
#include <sched.h>
#include <ucontext.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>
using namespace std;

#define __device__
#define __global__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __cvta_generic_to_shared(pointer) (unsigned long long)(pointer)

struct Index { unsigned x; };
struct uint4 { unsigned x, y, z, w; };
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;

constexpr int MOST_FIBERS = 1024, STACK = 1 << 16, BARRIERS = 16, FLIPS = 64;
static thread_local ucontext_t scheduler, *fibers;
static thread_local bool ended[MOST_FIBERS];
static thread_local char exchanged[MOST_FIBERS][8];
static thread_local void (*body)(void*);
static thread_local void* body_arguments;
static thread_local long long turn_of_block;

static void wait_for_others() {
  const unsigned mine = threadIdx.x;
  swapcontext(&fibers[mine], &scheduler);
}

struct NamedBarrier { int arrived; long long generation, flipped[FLIPS]; };
static thread_local NamedBarrier named[BARRIERS];
inline void host_arrive(int barrier, int threads) {
  NamedBarrier& own = named[barrier];
  if (++own.arrived < threads) return;
  if (own.arrived > threads) abort();
  own.arrived = 0;
  own.flipped[own.generation++ % FLIPS] = turn_of_block;
}
inline void host_meet(int barrier, int threads) {
  NamedBarrier& own = named[barrier];
  const long long mine = own.generation;
  host_arrive(barrier, threads);
  while (own.generation == mine || own.flipped[mine % FLIPS] == turn_of_block) wait_for_others();
}
inline void __syncthreads() { host_meet(0, blockDim.x); }
inline void __syncwarp() { wait_for_others(); }

inline void host_store(unsigned long long* to, unsigned long long first, unsigned long long second) {
  __atomic_store_n(to, first, __ATOMIC_RELEASE);
  __atomic_store_n(to + 1, second, __ATOMIC_RELEASE);
}
inline void host_load(const unsigned long long* from, unsigned long long& first,
                      unsigned long long& second) {
  first = __atomic_load_n(from, __ATOMIC_ACQUIRE);
  second = __atomic_load_n(from + 1, __ATOMIC_ACQUIRE);
}

// Phases in the lower half, bytes that are missing in the upper one.
inline void host_expect(unsigned long long* barrier, unsigned bytes) {
  *barrier += bytes ? (unsigned long long)bytes << 32 : 1;
}
inline void host_bulk_load(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
  if ((unsigned long long)to % 16 || (unsigned long long)from % 16 || bytes % 16) abort();
  memcpy(to, from, bytes);
  *barrier -= (unsigned long long)bytes << 32;
  if (*barrier >> 32 == 0) *barrier += 1;
}
inline void host_wait(unsigned long long* barrier, unsigned parity) {
  if ((*barrier & 1) == parity || *barrier >> 32) abort();
}
inline void host_bulk_store(void* to, const void* from, unsigned bytes) {
  if ((unsigned long long)to % 16 || (unsigned long long)from % 16 || bytes % 16) abort();
  memcpy(to, from, bytes);
}

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
inline bool __any_sync(unsigned, bool vote) {
  exchanged[threadIdx.x][0] = vote;
  wait_for_others();
  bool any = false;
  for (int lane = 0; lane < 32; ++lane) any = any || exchanged[threadIdx.x / 32 * 32 + lane][0];
  wait_for_others();
  return any;
}
inline bool __all_sync(unsigned mask, bool vote) { return !__any_sync(mask, !vote); }
inline void atomicMax(unsigned long long* address, unsigned long long value) {
  unsigned long long old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(address, &old, value, false, 5, 5)) {}
}
inline void atomicXor(unsigned* address, unsigned value) {
  __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}
inline void atomicMin(int* address, int value) {
  if (*address > value) *address = value;  // in shared memory
}

static void fiber() {
  body(body_arguments);
  ended[threadIdx.x] = true;
}

static void run_block() {
  vector<ucontext_t> own(blockDim.x);
  vector<char> stacks(size_t(blockDim.x) * STACK);
  fibers = own.data();
  memset(named, 0, sizeof(named));
  for (unsigned t = 0; t < blockDim.x; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks.data() + size_t(t) * STACK;
    fibers[t].uc_stack.ss_size = STACK;
    fibers[t].uc_link = &scheduler;
    makecontext(&fibers[t], fiber, 0);
    ended[t] = false;
  }
  for (bool any = true; any; ++turn_of_block) {
    any = false;
    for (unsigned t = 0; t < blockDim.x; ++t) {
      if (ended[t]) continue;
      threadIdx.x = t;
      swapcontext(&scheduler, &fibers[t]);
      any = true;
    }
    sched_yield();
  }
}

template <class... A, size_t... K>
void call(void (*kernel)(A...), void** arguments, index_sequence<K...>) {
  kernel(*static_cast<A*>(arguments[K])...);
}
template <auto KERNEL, class... A>
void launch_as(void (*)(A...), int blocks, int threads, void** arguments) {
  constexpr int AT_ONCE = 16;  // so many may wait for each other
  for (int first = 0; first < blocks; first += AT_ONCE) {
    vector<thread> running;
    for (int b = first; b < blocks && b < first + AT_ONCE; ++b)
      running.emplace_back([=] {
        gridDim.x = blocks;
        blockDim.x = threads;
        blockIdx.x = b;
        body_arguments = arguments;
        body = [](void* all) {
          call(KERNEL, static_cast<void**>(all), index_sequence_for<A...>());
        };
        run_block();
      });
    for (thread& each : running) each.join();
  }
}
template <auto KERNEL> void launch(int blocks, int threads, void** arguments) {
  launch_as<KERNEL>(KERNEL, blocks, threads, arguments);
}

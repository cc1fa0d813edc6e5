// CUDA kernels as functions of this machine: a thread a block, a fiber a thread.
//
// Blocks may wait for each other. Fibers of a warp run in turns, each until it waits, and warps run
// one after the other, each until all its fibers wait at barriers. A shuffle is met once every
// fiber of the warp has had its turn, so that all threads of a warp must wait equally often.
// Threads that wait at a barrier do not run before the last one has come; those of a warp then
// leave it in the same turn.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <strings.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
// Loading the Bessel functions of <cmath> takes five times as long as all the rest.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cmath>
using namespace std;

// The storage of a block, which is a thread.
#define OF_BLOCK static thread_local
#define __device__
#define __global__
#define __shared__ OF_BLOCK
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index { unsigned x; };
OF_BLOCK Index threadIdx, blockIdx, blockDim, gridDim;

constexpr int MOST_FIBERS = 1024, STACK = 1 << 16;
// A context begins a fiber. It is resumed by longjmp, which asks nothing of the system.
struct Fiber {
  jmp_buf at;
  ucontext_t context;
  bool has_begun, has_ended;
  int barrier;           // where it waits, or -1
  long long generation;  // of the barrier when it came there
};
OF_BLOCK ucontext_t new_context;
OF_BLOCK jmp_buf scheduler;
OF_BLOCK Fiber* fibers;
OF_BLOCK char* stacks;
OF_BLOCK char exchanged[MOST_FIBERS][8];
OF_BLOCK void (*body)(void*);
OF_BLOCK void* body_arguments;

static void wait_for_others() {
  if (_setjmp(fibers[threadIdx.x].at) == 0) _longjmp(scheduler, 1);
}

// A fiber runs the kernel once for every block.
static void run_fiber() {
  for (;;) {
    body(body_arguments);
    fibers[threadIdx.x].has_ended = true;
    wait_for_others();
  }
}

static void resume(unsigned t) {
  threadIdx.x = t;
  if (_setjmp(scheduler) != 0) return;
  Fiber& fiber = fibers[t];
  if (fiber.has_begun) _longjmp(fiber.at, 1);
  fiber.has_begun = true;
  fiber.context = new_context;
  fiber.context.uc_stack.ss_sp = stacks + size_t(t) * STACK;
  fiber.context.uc_stack.ss_size = STACK;
  makecontext(&fiber.context, run_fiber, 0);
  setcontext(&fiber.context);
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
inline void __syncwarp() { wait_for_others(); }
inline unsigned __ballot_sync(unsigned, bool vote) {
  exchanged[threadIdx.x][0] = vote;
  wait_for_others();
  unsigned ballot = 0;
  for (int lane = 0; lane < 32; ++lane)
    ballot |= unsigned(exchanged[threadIdx.x / 32 * 32 + lane][0]) << lane;
  wait_for_others();
  return ballot;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == ~0u; }
inline int __ffs(int value) { return ffs(value); }

template <class... A, size_t... K>
void call(void (*kernel)(A...), void** arguments, index_sequence<K...>) {
  kernel(*static_cast<A*>(arguments[K])...);
}


#define __cvta_generic_to_shared(pointer) (unsigned long long)(pointer)

struct ulonglong2 { unsigned long long x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

constexpr int BARRIERS = 16;

struct NamedBarrier { int arrived; long long generation; };
OF_BLOCK NamedBarrier named[BARRIERS];
inline void host_arrive(int barrier, int threads) {
  NamedBarrier& reached = named[barrier];
  if (++reached.arrived < threads) return;
  if (reached.arrived > threads) abort();
  reached.arrived = 0;
  ++reached.generation;
}
inline void host_meet(int barrier, int threads) {
  Fiber& fiber = fibers[threadIdx.x];
  fiber.barrier = barrier;
  fiber.generation = named[barrier].generation;
  host_arrive(barrier, threads);
  wait_for_others();
  fiber.barrier = -1;
}
static bool is_waiting(const Fiber& fiber) {
  return fiber.barrier >= 0 && named[fiber.barrier].generation == fiber.generation;
}
inline void __syncthreads() { host_meet(0, blockDim.x); }
OF_BLOCK bool votes[MOST_FIBERS];
inline bool __syncthreads_or(bool vote) {
  votes[threadIdx.x] = vote;
  __syncthreads();
  const bool any = std::find(votes, votes + blockDim.x, true) != votes + blockDim.x;
  __syncthreads();
  return any;
}
inline bool __syncthreads_and(bool vote) { return !__syncthreads_or(!vote); }
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
  do wait_for_others();
  while ((*barrier & 1) == parity || *barrier >> 32);
}
inline void host_bulk_store(void* to, const void* from, unsigned bytes) {
  if ((unsigned long long)to % 16 || (unsigned long long)from % 16 || bytes % 16) abort();
  memcpy(to, from, bytes);
}

template <class T> inline T atomicAdd(T* address, T value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T> inline void atomicMax(T* address, T value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(address, &old, value, false, 5, 5)) {}
}
template <class T> inline void atomicMin(T* address, T value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old > value && !__atomic_compare_exchange_n(address, &old, value, false, 5, 5)) {}
}
inline void atomicXor(unsigned* address, unsigned value) {
  __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}

// Words that other blocks publish. A thread that reads many waits for one, so another block runs.
OF_BLOCK unsigned published_reads;
struct PublishedWords {
  const volatile unsigned long long* words;
  PublishedWords(const unsigned long long* words) : words(words) {}
  unsigned long long operator[](int k) const {
    if (++published_reads % 32 == 0) sched_yield();
    return words[k];
  }
};

// Return whether a fiber of a warp has run. After so many turns other warps and blocks run, since
// fibers may wait for numbers that these write.
static bool run_warp(unsigned first) {
  const unsigned end = min(first + 32, blockDim.x);
  for (int turn = 0; turn < 100; ++turn) {
    bool any = false;
    for (unsigned t = first; t < end; ++t) {
      if (fibers[t].has_ended || is_waiting(fibers[t])) continue;
      resume(t);
      any = true;
    }
    if (!any) return turn > 0;
  }
  sched_yield();
  return true;
}

static void run_block() {
  memset(named, 0, sizeof(named));
  for (unsigned t = 0; t < blockDim.x; ++t) {
    fibers[t].barrier = -1;
    fibers[t].has_ended = false;
  }
  unsigned round = 0;
  for (bool any = true; any; ++round) {
    any = false;
    for (unsigned first = 0; first < blockDim.x; first += 32) any |= run_warp(first);
    if (round % 16 == 15) sched_yield();
  }
  for (unsigned t = 0; t < blockDim.x; ++t)
    if (!fibers[t].has_ended) abort();  // at a barrier that other threads never reach
}

struct HostBlock {
  int blocks, threads, index;
  void** arguments;
  void (*body)(void*);
};
constexpr int LIVE_BLOCKS = 64;  // so many blocks may wait for each other
static void* run_thread(void* block) {
  const HostBlock& own = *static_cast<HostBlock*>(block);
  gridDim.x = own.blocks;
  blockDim.x = own.threads;
  body_arguments = own.arguments;
  body = own.body;
  fibers = static_cast<Fiber*>(calloc(blockDim.x, sizeof(Fiber)));
  stacks = static_cast<char*>(malloc(size_t(blockDim.x) * STACK));  // not written to
  getcontext(&new_context);
  for (blockIdx.x = own.index; blockIdx.x < gridDim.x; blockIdx.x += LIVE_BLOCKS) run_block();
  free(stacks);
  free(fibers);
  return nullptr;
}
static void run_blocks(int blocks, int threads, void** arguments, void (*body)(void*)) {
  pthread_t running[LIVE_BLOCKS];
  HostBlock all[LIVE_BLOCKS];
  const int count = min(LIVE_BLOCKS, blocks);
  for (int k = 0; k < count; ++k) {
    all[k] = {blocks, threads, k, arguments, body};
    if (pthread_create(&running[k], nullptr, run_thread, &all[k])) abort();
  }
  for (int k = 0; k < count; ++k) pthread_join(running[k], nullptr);
}

template <auto KERNEL, class... A>
void launch_as(void (*)(A...), int blocks, int threads, void** arguments) {
  run_blocks(blocks, threads, arguments, [](void* all) {
    call(KERNEL, static_cast<void**>(all), index_sequence_for<A...>());
  });
}
template <auto KERNEL> void launch(int blocks, int threads, void** arguments) {
  launch_as<KERNEL>(KERNEL, blocks, threads, arguments);
}

// CUDA kernels whose blocks wait for each other, on this machine: a thread a block, a fiber a thread.
//
// As in cuda_on_host.h fibers run in turns. Those of a warp wait equally often, so that shuffles meet;
// those that wait at a named barrier all leave it in the turn after its last one has come.
#include <pthread.h>
#include <sched.h>
#define SHARED_BY static thread_local
#include "cuda_fibers_on_host.h"

#define __cvta_generic_to_shared(pointer) (unsigned long long)(pointer)

struct uint4 { unsigned x, y, z, w; };

constexpr int BARRIERS = 16, FLIPS = 64;
static thread_local long long turn_of_block;

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

inline void atomicMax(int* address, int value) {
  int old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(address, &old, value, false, 5, 5)) {}
}
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

static void run_block() {
  fibers = static_cast<Fiber*>(calloc(blockDim.x, sizeof(Fiber)));
  stacks = static_cast<char*>(malloc(size_t(blockDim.x) * STACK));  // not written to
  memset(named, 0, sizeof(named));
  memset(ended, 0, sizeof(ended));
  for (bool any = true; any; ++turn_of_block) {
    any = false;
    for (unsigned t = 0; t < blockDim.x; ++t) {
      if (ended[t]) continue;
      resume(t);
      any = true;
    }
    sched_yield();
  }
  free(stacks);
  free(fibers);
}

struct Block {
  int blocks, threads, index;
  void** arguments;
  void (*body)(void*);
};
static void* run_thread(void* block) {
  const Block& own = *static_cast<Block*>(block);
  gridDim.x = own.blocks;
  blockDim.x = own.threads;
  blockIdx.x = own.index;
  body_arguments = own.arguments;
  body = own.body;
  run_block();
  return nullptr;
}
static void run_blocks(int blocks, int threads, void** arguments, void (*body)(void*)) {
  constexpr int AT_ONCE = 16;  // so many may wait for each other
  pthread_t running[AT_ONCE];
  Block all[AT_ONCE];
  for (int first = 0; first < blocks; first += AT_ONCE) {
    const int count = min(AT_ONCE, blocks - first);
    for (int k = 0; k < count; ++k) {
      all[k] = {blocks, threads, first + k, arguments, body};
      if (pthread_create(&running[k], nullptr, run_thread, &all[k])) abort();
    }
    for (int k = 0; k < count; ++k) pthread_join(running[k], nullptr);
  }
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

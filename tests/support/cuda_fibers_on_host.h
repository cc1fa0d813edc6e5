// The threads of a block as fibers of this machine, and what they exchange within a warp.
//
// Fibers run in turns, each until it waits. A shuffle is met once every fiber has had its turn, so
// that all threads of a warp must wait equally often. SHARED_BY is the storage of a block.
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

#define __device__
#define __global__
#define __shared__ SHARED_BY
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index { unsigned x; };
SHARED_BY Index threadIdx, blockIdx, blockDim, gridDim;

constexpr int MOST_FIBERS = 1024, STACK = 1 << 16;
// A context begins a fiber. It is resumed by longjmp, which asks nothing of the system.
struct Fiber {
  jmp_buf at;
  ucontext_t context;
  bool has_begun;
};
SHARED_BY jmp_buf scheduler;
SHARED_BY Fiber* fibers;
SHARED_BY char* stacks;
SHARED_BY bool ended[MOST_FIBERS];
SHARED_BY char exchanged[MOST_FIBERS][8];
SHARED_BY void (*body)(void*);
SHARED_BY void* body_arguments;

static void wait_for_others() {
  if (_setjmp(fibers[threadIdx.x].at) == 0) _longjmp(scheduler, 1);
}

// A fiber runs the kernel once for every block.
static void run_fiber() {
  for (;;) {
    body(body_arguments);
    ended[threadIdx.x] = true;
    wait_for_others();
  }
}

static void resume(unsigned t) {
  threadIdx.x = t;
  if (_setjmp(scheduler) != 0) return;
  Fiber& fiber = fibers[t];
  if (fiber.has_begun) _longjmp(fiber.at, 1);
  fiber.has_begun = true;
  getcontext(&fiber.context);
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

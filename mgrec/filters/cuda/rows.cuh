// Segments of contiguous rows, or of a few columns. A warp copies the segments of its lanes through
// shared memory, so that it reads and writes contiguous memory.
//
// In shared memory a batch of a segment takes an odd number of 16-byte vectors, so that lanes read
// without bank conflicts. Outputs overwrite inputs of the same dtype. Other inputs are narrower:
// BATCHES batches of them fill a stage, in the bytes of one batch of outputs. Results Y narrower
// than outputs E are rounded as they are stored.
#pragma once
#include "engines/cuda/memory/bulk.cuh"
#include "engines/cuda/memory/stores.cuh"
#include "filters/cuda/lane.cuh"

// Return the next odd number.
DEVICE constexpr int conflict_free_pitch(int count) { return count + 1 - count % 2; }

constexpr int PER_WARP = 32 / INNER, BATCH = ITEMS * INNER;
constexpr int VECTOR = 16 / int(sizeof(E)), PITCH = conflict_free_pitch(BATCH / VECTOR);
constexpr int X_VECTOR = 16 / int(sizeof(X)), X_BATCH = BATCHES * BATCH;
// Unaligned inputs keep their offset from multiples of 16 bytes.
constexpr bool SHIFTED = !IN_PLACE && !ALIGNED;
constexpr int X_PITCH = conflict_free_pitch(X_BATCH / X_VECTOR + SHIFTED);
static_assert(BATCH % VECTOR == 0 && ITEMS % GROUP == 0 && GROUP % VECTOR == 0, "whole vectors");
static_assert(!BULK_INPUTS || ALIGNED, "whole vectors");
static_assert(!BULK_RESULTS || ALIGNED_RESULTS, "whole vectors of results");
static_assert(!BACKWARD, "only columns are filtered backward");
static_assert(BATCH % X_VECTOR == 0 && (!IN_PLACE || BATCHES == 1), "whole vectors of inputs");

template <int BYTES> struct Bits { typedef uint4 type; };
template <> struct Bits<8> { typedef unsigned long long type; };
template <> struct Bits<4> { typedef unsigned type; };
template <> struct Bits<2> { typedef unsigned short type; };

template <class T, int COUNT> union Part {
  typedef typename Bits<COUNT * sizeof(T)>::type Word;
  Word vector;
  T v[COUNT];
  DEVICE Part() {}
};

struct Rows {
  uint4 *memory, *results;
  const X* x;
  Y* y;
  const long long *firsts, *lows, *highs;  // of the warp's segments, in elements
  long long low, high;                     // of the lane's segment
  long long distance;                      // between these segments; 0 if it differs
  int input, output;                       // of the lane's first elements in a stage
  unsigned long long* barriers;            // of bulk copies to each stage
  unsigned parities;                       // of the phases of these barriers, a bit each

  // Call visit(element in memory, element of a stage) for each existing word of `LONG` elements, and
  // visit_single(...) for the elements at the end. Most batches exist as a whole: with comparisons, a
  // word takes 40 instructions, more than the filter.
  template <class Word, class T, int LONG, class Visit, class VisitSingle>
  DEVICE void visit_words(long long step, int pitch, Visit visit, VisitSingle visit_single) const {
    constexpr int LENGTH = sizeof(Word) / sizeof(T), COUNT = LONG / LENGTH, ALL_OF = PER_WARP * COUNT;
    const long long first = step * INNER;
    if (__all_sync(ALL, first >= low && first + LONG <= high)) {
      // The first elements of some segments are read before the copies, which they may not pass.
      constexpr int WORDS = (ALL_OF + 31) / 32, READ = 8;
#pragma unroll
      for (int group = 0; group < WORDS; group += READ) {
        long long element[READ];
#pragma unroll
        for (int k = 0; k < READ && group + k < WORDS; ++k)
          element[k] = firsts[((group + k) * 32 + threadIdx.x) / COUNT % 32] + first;
#pragma unroll
        for (int k = 0; k < READ && group + k < WORDS; ++k) {
          const unsigned index = (group + k) * 32 + threadIdx.x, segment = index / COUNT;
          const unsigned word = index % COUNT * LENGTH;
          if (ALL_OF % 32 == 0 || index < ALL_OF) visit(element[k] + word, segment * pitch + word);
        }
      }
      return;
    }
#pragma unroll 1
    for (int index = threadIdx.x; index < ALL_OF; index += 32) {
      const int segment = index / COUNT, word = index % COUNT * LENGTH;
      const long long from = first + word, end = highs[segment];
      if (from < lows[segment]) continue;
      const int to = segment * pitch + word;
      if (from + LENGTH <= end) visit(firsts[segment] + from, to);
      else
        for (int e = 0; from + e < end && e < LENGTH; ++e)
          visit_single(firsts[segment] + from + e, to + e);
    }
  }

  template <class Word> DEVICE void request_words(X* stage, long long step) const {
    visit_words<Word, X, X_BATCH>(
        step, X_PITCH * X_VECTOR,
        [=](long long element, int to) {
          copy_word(reinterpret_cast<Word*>(stage + to), reinterpret_cast<const Word*>(x + element));
        },
        [=](long long element, int to) { stage[to] = x[element]; });
  }
  // Words across the ends of a segment are copied element by element.
  DEVICE void request_shifted(X* stage, long long step) const {
    constexpr int COUNT = X_BATCH / X_VECTOR + 1, ALL_OF = PER_WARP * COUNT;
#pragma unroll 4
    for (int k = 0; k < (ALL_OF + 31) / 32; ++k) {
      const int index = k * 32 + threadIdx.x, segment = index / COUNT,
                word = index % COUNT * X_VECTOR;
      if (segment >= PER_WARP) continue;
      const X* const first = x + firsts[segment];
      const long long from = step * INNER + word - shift_of(first), low = lows[segment],
                      high = highs[segment];
      X* const to = stage + segment * (X_PITCH * X_VECTOR) + word;
      if (from >= low && from + X_VECTOR <= high)
        copy_word(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(first + from));
      else
        for (int e = 0; e < X_VECTOR; ++e)
          if (from + e >= low && from + e < high) to[e] = first[from + e];
    }
  }
  static DEVICE int shift_of(const X* first) {
    return SHIFTED ? int((unsigned long long)first % 16 / sizeof(X)) : 0;
  }
  // Whether elements [from, from + count) of all segments exist, at equal distances.
  DEVICE bool are_regular(long long from, int count) const {
    return __all_sync(ALL, distance && from >= low && from + count <= high);
  }
  DEVICE void load_bulk(int number, long long from) const {
    X* const to = stage_at(number);
    const X* const first = x + firsts[0] + from;
    barrier_expect(barriers + number, PER_WARP * X_BATCH * sizeof(X));
#pragma unroll 8
    for (int k = 0; k < PER_WARP; ++k)
      bulk_load(to + k * (X_PITCH * X_VECTOR), first + k * distance, X_BATCH * sizeof(X),
                barriers + number);
  }
  DEVICE void store_bulk(int number, long long from) const {
    const E* const stage = results_at(number);
    E* const first = reinterpret_cast<E*>(y) + firsts[0] + from;
#pragma unroll 8
    for (int k = 0; k < PER_WARP; ++k)
      bulk_store(first + k * distance, stage + k * (PITCH * VECTOR), BATCH * sizeof(E));
    bulk_commit();
  }
  DEVICE void wait(int number) {
    copies_wait();
    if (!BULK_INPUTS) return;
    barrier_wait(barriers + number, parities >> number & 1);
    parities ^= 1u << number;
  }
  DEVICE void request(int number, long long step) {
    if (BULK_RESULTS && IN_PLACE) {  // The stage may still be copied.
      bulk_wait_read();
      __syncwarp();
    }
    if (BULK_INPUTS && are_regular(step * INNER, X_BATCH)) {
      if (is_elected()) load_bulk(number, step * INNER);
      return copies_commit();
    }
    if (BULK_INPUTS && is_elected()) barrier_expect(barriers + number, 0);
    X* const stage = stage_at(number);
    if (SHIFTED) request_shifted(stage, step);
    else if (ALIGNED) request_words<uint4>(stage, step);
    else request_words<X>(stage, step);
    copies_commit();
  }

  template <class Word> DEVICE void flush_words(const E* stage, long long step) const {
    visit_words<Word, E, BATCH>(
        step, PITCH * VECTOR,
        [=](long long element, int to) {
          typedef Part<E, sizeof(Word) / sizeof(E)> Outputs;
          typedef Part<Y, sizeof(Word) / sizeof(E)> Results;
          Outputs outputs;
          Results results;
          outputs.vector = *reinterpret_cast<const typename Outputs::Word*>(stage + to);
#pragma unroll
          for (int e = 0; e < sizeof(Word) / sizeof(E); ++e) results.v[e] = cast<Y>(outputs.v[e]);
          store_vector(y + element, results.vector);
        },
        [=](long long element, int to) { y[element] = cast<Y>(stage[to]); });
  }
  DEVICE void flush(int number, long long step) const {
    if (BULK_RESULTS && are_regular(step * INNER, BATCH)) {
      fence_proxy();
      __syncwarp();
      if (is_elected()) {
        store_bulk(number, step * INNER);
        if (!IN_PLACE) bulk_wait_read();  // The next batch takes the same memory.
      }
      __syncwarp();
      return;
    }
    if (ALIGNED_RESULTS) flush_words<uint4>(results_at(number), step);
    else flush_words<E>(results_at(number), step);
    __syncwarp();
  }

  DEVICE X* stage_at(int number) const {
    return reinterpret_cast<X*>(memory + number * PER_WARP * X_PITCH);
  }
  DEVICE E* results_at(int number) const {
    return reinterpret_cast<E*>(IN_PLACE ? memory + number * PER_WARP * PITCH : results);
  }
  DEVICE bool is_idle() const { return 32 % INNER && threadIdx.x >= PER_WARP * INNER; }

  DEVICE void read(int number, int k, X (&v)[GROUP]) const {
    constexpr int COUNT = GROUP < X_VECTOR ? GROUP : X_VECTOR;
    constexpr bool WHOLE = INNER == 1 && !SHIFTED;
    typedef Part<X, COUNT> Inputs;
    const X* const from = stage_at(number) + input + k * INNER;
#pragma unroll
    for (int g = 0; g < GROUP; g += COUNT) {
      Inputs part;
      if (WHOLE) part.vector = *reinterpret_cast<const typename Inputs::Word*>(from + g);
#pragma unroll
      for (int r = 0; r < COUNT; ++r) v[g + r] = WHOLE ? part.v[r] : from[(g + r) * INNER];
    }
  }
  DEVICE void write(int number, long long, int k, const E (&v)[GROUP]) const {
    E* const to = results_at(number) + output + k * INNER;
    if (is_idle()) return;
#pragma unroll
    for (int g = 0; g < GROUP; g += VECTOR) {
      Part<E, VECTOR> part;
#pragma unroll
      for (int r = 0; r < VECTOR; ++r)
        if (INNER == 1) part.v[r] = v[g + r];
        else to[(g + r) * INNER] = v[g + r];
      if (INNER == 1) *reinterpret_cast<uint4*>(to + g) = part.vector;
    }
  }
  DEVICE X read_one(int number, int k) const { return stage_at(number)[input + k * INNER]; }
  DEVICE void write_one(int number, long long, int k, E y) const {
    results_at(number)[output + k * INNER] = y;
  }
};

extern "C" __global__ void __launch_bounds__(32) filter_kernel(
    const Arrays arrays, const Argument<BY_VALUE> with, const Shape shape) {
  __shared__ uint4 memory[STAGES * PER_WARP * X_PITCH + (WRITE && !IN_PLACE ? PER_WARP * PITCH : 0)];
  __shared__ long long firsts[32], lows[32], highs[32];
  __shared__ unsigned long long barriers[STAGES];
  const int idle = 32 % INNER && threadIdx.x >= PER_WARP * INNER;
  const int segment = idle ? PER_WARP - 1 : threadIdx.x / INNER;
  const long long number = blockIdx.x * (long long)PER_WARP;
  const Lane lane(number + segment, idle ? INNER : int(threadIdx.x % INNER), shape);
  if (threadIdx.x < PER_WARP) {
    const Lane whole(number + threadIdx.x, 0, shape);
    firsts[threadIdx.x] = whole.first;
    lows[threadIdx.x] = whole.low * INNER;
    highs[threadIdx.x] = whole.high * INNER;
  }
  if (BULK_INPUTS && threadIdx.x == 0) {
    for (int k = 0; k < STAGES; ++k) barrier_create(barriers + k);
    fence_proxy();
  }
  __syncwarp();
  const long long between = firsts[1] - firsts[0];
  const bool is_regular = __all_sync(ALL, firsts[segment] == firsts[0] + segment * between);
  const int column = idle ? 0 : int(threadIdx.x % INNER);
  Rows access = {memory, memory + STAGES * PER_WARP * X_PITCH, arrays.x, arrays.y, firsts, lows, highs,
                 lows[segment], highs[segment], is_regular ? between : 0,
                 segment * X_PITCH * X_VECTOR + Rows::shift_of(arrays.x + firsts[segment]) + column,
                 segment * PITCH * VECTOR + column,
                 barriers, 0};
  Walker<Rows> walker = {with.get(), arrays, shape, access};
  walker.filter_segment(lane);
}

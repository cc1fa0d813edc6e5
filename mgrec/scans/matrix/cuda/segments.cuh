// Recurrences whose maps have many numbers, by the P-scheme: a row is divided into segments.
//
// 1. `summarise`: the map of each segment, by one thread, or LANES threads that compute parts of it;
// 2. `join`: the maps of groups of neighbouring segments, level by level;
// 3. `spread`: the states at the start of each segment, from those of its group;
// 4. `determine`: the results of each segment, by one thread.
//
// The program defines `struct Pass`, whose maps are MAP doubles and whose states are STATE doubles:
//   void summarise(const Range& range, int lane, double* map) const;
//   void join(const double* maps, int count, int lane, double* map) const;  // of count maps in order
//   void apply(const double* map, double* state) const;       // to the state before a segment
//   void apply_back(const double* map, double* state) const;  // to the state after it
//   void determine(const Range& range, const double* before, const double* after) const;
// There is no state before a first step, or after a last one, unless rows continue: its segment must
// not depend on it.
//
// A row may be a chunk, whose maps are computed before the states at its ends are known. If
// SKIPS_FIRST, its map leads from the state after its first step, and
//   void enter(const Range& row, double* state) const;
// replaces the state before a row by that which the map of its first segment takes, or the state
// after it by that which the map of its last segment takes.
#pragma once

// Steps begin..end-1 of the row (outer, inner), and the number of their segment among all. A row is
// part of a longer one if it `continues`, so that there is a state before it, or `goes_on`, so that
// there is one after it.
struct Range { long long outer, inner, begin, end, number; bool continues, goes_on; };
struct Sizes {
  long long outers, steps, inners, segments, length, continues, goes_on;
  DEVICE Range range(long long number) const {
    const long long first = number % segments * length;
    return part(number / segments, first, first + length < steps ? first + length : steps, number);
  }
  DEVICE Range part(long long row, long long first, long long end, long long number) const {
    return {row / inners, row % inners, first, end, number, continues != 0, goes_on != 0};
  }
};
// An operand with strides, of doubles or marks; `numbers` of a step are contiguous.
template <class X> struct Strided {
  const X* first;
  long long outer, step, inner;
  DEVICE const X* at(long long x, long long t, long long y) const {
    return first + x * outer + t * step + y * inner;
  }
};
typedef Strided<double> Operand;
typedef Strided<unsigned char> Marks;

DEVICE inline long long index_of_thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }

// LANES, or 1 if a thread can summarise all parts of a map.
template <class Pass> DEVICE constexpr int lanes_of_summary() {
  return SUMMARY_LANES > 0 ? SUMMARY_LANES : Pass::LANES;
}
template <bool SKIPS, class Pass>
DEVICE void summarise(const Pass& pass, const Sizes& sizes, double* maps) {
  const long long k = index_of_thread(), number = k / lanes_of_summary<Pass>();
  if (number >= sizes.outers * sizes.inners * sizes.segments) return;
  Range range = sizes.range(number);
  if (SKIPS && range.begin == 0 && range.continues) range.begin = 1;
  pass.summarise(range, int(k % lanes_of_summary<Pass>()), maps + number * Pass::MAP);
}

// The first step of each row, twice: as it is, and as the start of a sequence. Between these maps
// there is room for another.
template <class Pass>
DEVICE void summarise_first_step(const Pass& pass, const Sizes& sizes, double* maps) {
  const long long k = index_of_thread(), number = k / Pass::LANES, row = number / 2;
  if (row >= sizes.outers * sizes.inners) return;
  Range range = sizes.part(row, 0, sizes.steps > 0, row);
  range.continues = number % 2 == 0;
  pass.summarise(range, int(k % Pass::LANES), maps + 2 * number * Pass::MAP);
}

// The state at an end of each row, in front of the states or, for its other end, after it.
template <class Pass>
DEVICE void enter(const Pass& pass, const Sizes& sizes, const double* from, double* to) {
  const long long row = index_of_thread();
  if (row >= sizes.outers * sizes.inners) return;
  double state[Pass::STATE];
  for (int i = 0; i < Pass::STATE; ++i) state[i] = from[row * Pass::STATE + i];
  pass.enter(sizes.part(row, 0, sizes.steps, row), state);
  for (int i = 0; i < Pass::STATE; ++i) to[row * Pass::STATE + i] = state[i];
}

// `lower` maps of a row become `upper` maps, each of GROUP neighbours.
template <class Pass>
DEVICE void join(const Pass& pass, const double* from, double* to, long long rows, long long lower,
                 long long upper) {
  const long long k = index_of_thread(), number = k / Pass::LANES, group = number % upper;
  if (number >= rows * upper) return;
  const long long first = number / upper * lower + group * GROUP;
  const long long left = lower - group * GROUP;
  pass.join(from + first * Pass::MAP, int(left < GROUP ? left : GROUP), int(k % Pass::LANES),
            to + number * Pass::MAP);
}

// The states of groups become those of their maps; no groups have the state 0.
template <bool BACK, class Pass>
DEVICE void spread(const Pass& pass, const double* maps, const double* of_groups, double* states,
                   long long rows, long long lower, long long upper) {
  const long long number = index_of_thread(), group = number % upper;
  if (number >= rows * upper) return;
  const long long first = number / upper * lower + group * GROUP;
  const long long left = lower - group * GROUP, count = left < GROUP ? left : GROUP;
  double state[Pass::STATE];
  for (int i = 0; i < Pass::STATE; ++i)
    state[i] = of_groups ? of_groups[number * Pass::STATE + i] : 0.0;
  for (int n = 0; n < count; ++n) {
    const long long k = first + (BACK ? count - 1 - n : n);
    for (int i = 0; i < Pass::STATE; ++i) states[k * Pass::STATE + i] = state[i];
    if (n + 1 == count) continue;
    if (BACK) pass.apply_back(maps + k * Pass::MAP, state);
    else pass.apply(maps + k * Pass::MAP, state);
  }
}

// Results of some steps of 32 segments, each of WIDTH doubles a step, on their way to memory.
//
// Neighbouring threads solve distant segments. Each writing its own results ran at 0.07 of the
// bandwidth: memory received 32 bytes at a time. A warp writes those of STEPS steps together. MOST
// doubles of a thread are staged.
template <int WIDTH, int MOST = 107> struct Stage {
  static constexpr int STEPS = WIDTH < MOST ? MOST / WIDTH : 1;
  static constexpr bool FITS = WIDTH <= MOST;
  double numbers[32][STEPS * WIDTH + 1];  // an odd number, against bank conflicts
  long long first_step[32];               // the index of the first of the steps
  int count[32];

  // The numbers of a step of the calling thread, of an array that has `width` a step, and those
  // before it `offset`.
  DEVICE double* at(int offset, int step, int width) {
    return numbers[threadIdx.x] + offset * STEPS + step * width;
  }
  // Writes the array of all segments; all threads of the warp call it.
  template <class R> DEVICE void write(R* array, int offset, int width) const {
    const int length = STEPS * width;
    if (!array) return;
    for (int k = threadIdx.x; k < 32 * length; k += 32) {
      const int row = k / length, column = k - row * length;
      if (column < count[row] * width)
        array[first_step[row] * width + column] = R(numbers[row][offset * STEPS + column]);
    }
  }
};

// Blocks of 32 threads. Threads without a segment have an empty range. `states` begin with those
// before the rows, and those after them; from the others on there are those of segments.
template <class Pass>
DEVICE void determine(const Pass& pass, const Sizes& sizes, const double* states, long long before,
                      long long after) {
  const long long rows = sizes.outers * sizes.inners, count = rows * sizes.segments;
  const long long number = index_of_thread(), existing = number < count ? number : count - 1;
  const long long row = existing / sizes.segments;
  Range range = sizes.range(existing);
  const double *of_before = states + before + existing * Pass::STATE,
               *of_after = states + after + existing * Pass::STATE;
  if (range.begin == 0 && range.continues) of_before = states + row * Pass::STATE;
  if (range.end == sizes.steps && range.goes_on) of_after = states + (rows + row) * Pass::STATE;
  if (number >= count) range.end = range.begin;
  pass.determine(range, of_before, of_after);
}

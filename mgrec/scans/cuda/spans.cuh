// A span summarises a run of steps: it is empty, the composed map, or the state after the run.
//
// The span of a thread past the end is empty. It is a state if a row begins inside the run, else a
// map. Emptiness is a kind, not the identity map: composing with (1, 0) would turn 0·inf into nan.
#pragma once
#include "engines/cuda/lanes.cuh"

// Validity of maps w -> A·w + B whose A underflows.
//
// A product below the normal numbers has lost digits. Composed with a large A, the lost digits would
// matter: then the map becomes nan, and the loop solves its steps.

constexpr bool TRACKED = GUARDED && Transfer::WIDTH == 2;

// The smallest number with all its digits; a number far below overflow; and the ratio of two states
// above which 2^-126 (2^-1022) times the larger one is less than the rounding error of the smaller one.
template <class R> struct Range {
  static constexpr double NORMAL = 0x1p-1022, MODERATE = 1e305, APART = 0x1p-960;
};
template <> struct Range<float> {
  static constexpr float NORMAL = 0x1p-126f, MODERATE = 1e36f, APART = 0x1p-100f;
};

template <class I> DEVICE inline double size_of(I x) { return fabs(double(x)); }
DEVICE inline float size_of(float x) { return fabs(x); }
DEVICE inline double size_of(double x) { return fabs(x); }
template <class R> DEVICE inline R size_of(complex<R> x) { return fmax(fabs(x.re), fabs(x.im)); }
typedef decltype(size_of(T())) Size;
typedef Range<Size> Limits;

// A coefficient of 0 counts as a lost product as well: the distinction took 1% of the time. So rows
// that grow by LARGE and continue after a 0 are solved again without need.
DEVICE inline bool is_lost(T product) { return size_of(product) < Limits::NORMAL; }

// Sizes from which the lost digits of an underflowed product matter: at least 1e-39 (5e-318).
constexpr Size LARGE = Size(1e6);

// x·y + trace, one operation: the look-ahead waits for the product.
template <class I, class S> DEVICE inline I product_of(I x, I y, S) { return np_multiply(x, y); }
DEVICE inline float product_of(float x, float y, float trace) { return fma(x, y, trace); }
DEVICE inline double product_of(double x, double y, double trace) { return fma(x, y, trace); }
template <class R> DEVICE inline complex<R> product_of(complex<R> x, complex<R> y, R trace) {
  const complex<R> product = x * y;
  return {product.re + trace, product.im + trace};
}

DEVICE inline Transfer::Map compose(const Transfer::Map& earlier, const Transfer::Map& later) {
  Transfer::Map map = Transfer::compose(earlier, later);
  if constexpr (TRACKED) {
    const bool shows = is_lost(later.v[0]) && size_of(earlier.v[0]) > LARGE;
    map.v[0] = product_of(earlier.v[0], later.v[0], shows ? not_a_number<Size>() : Size(0));
  }
  return map;
}


enum Kind { EMPTY = 0, MAP = 1, STATE = 2 };
constexpr bool MAY_KNOW_STATE = SEGMENTED;
constexpr int SLOTS = Transfer::WIDTH > Transfer::STATES ? Transfer::WIDTH : Transfer::STATES;
constexpr int WORDS = (SLOTS * int(sizeof(T)) + 3) / 4;

struct alignas(alignof(T) > 4 ? alignof(T) : 4) Span {
  T v[SLOTS];
  int kind;
};

DEVICE inline Transfer::Map map_of(const Span& span) {
  Transfer::Map map;
#pragma unroll
  for (int k = 0; k < Transfer::WIDTH; ++k) map.v[k] = span.v[k];
  return map;
}
DEVICE inline Transfer::State state_of(const Span& span) {
  Transfer::State state;
#pragma unroll
  for (int k = 0; k < Transfer::STATES; ++k) state.v[k] = span.v[k];
  return state;
}
DEVICE inline Span span_of(const Transfer::Map& map) {
  Span span = {};
#pragma unroll
  for (int k = 0; k < Transfer::WIDTH; ++k) span.v[k] = map.v[k];
  span.kind = MAP;
  return span;
}
DEVICE inline Span span_of(const Transfer::State& state) {
  Span span = {};
#pragma unroll
  for (int k = 0; k < Transfer::STATES; ++k) span.v[k] = state.v[k];
  span.kind = STATE;
  return span;
}
DEVICE inline Span empty_span() {
  Span span = {};
  return span;
}

// Every combination is computed and one selected: with branches, reconvergence took two thirds of
// the time of a scan.
DEVICE inline Span join(const Span& earlier, const Span& later) {
  Span joined = span_of(compose(map_of(earlier), map_of(later)));
  if (MAY_KNOW_STATE) {
    const Span known = span_of(Transfer::apply(map_of(later), state_of(earlier)));
    if (earlier.kind == STATE) joined = known;
  }
  if (earlier.kind == EMPTY || (MAY_KNOW_STATE && later.kind == STATE)) joined = later;
  if (later.kind == EMPTY) joined = earlier;
  return joined;
}

// The same for maps, whose kinds are not compared.
DEVICE inline Span join_maps(const Transfer::Map& earlier, const Span& later) {
  return span_of(compose(earlier, map_of(later)));
}
template <bool ALL_MAPS> DEVICE inline Span join_known(const Span& earlier, const Span& later) {
  return ALL_MAPS ? join_maps(map_of(earlier), later) : join(earlier, later);
}

// `join` without branches; sets `needs_slow_path` if only `join` gives the right result.
DEVICE inline Span join_quickly(const Span& earlier, const Span& later, bool& needs_slow_path) {
  bool is_slow = false;
  Span joined =
      span_of(Transfer::compose_quickly(map_of(earlier), map_of(later), is_slow));
  if (MAY_KNOW_STATE) {
    bool is_state_slow = false;
    const Span known =
        span_of(Transfer::apply_quickly(map_of(later), state_of(earlier), is_state_slow));
    if (earlier.kind == STATE) joined = known, is_slow = is_state_slow;
  }
  needs_slow_path = needs_slow_path | (is_slow & (earlier.kind != EMPTY) & (later.kind == MAP));
  if (earlier.kind == EMPTY || (MAY_KNOW_STATE && later.kind == STATE)) joined = later;
  if (later.kind == EMPTY) joined = earlier;
  return joined;
}

DEVICE inline Transfer::State after(const Span& span, const Transfer::State& carry_in) {
  if (span.kind == EMPTY) return carry_in;
  return span.kind == STATE ? state_of(span) : Transfer::apply(map_of(span), carry_in);
}

// Scan and reduction of spans across the lanes of a warp; lane order is time order.

// `warp_scan` without branches; sets `needs_slow_path` in lanes with a wrong result. With ALL_MAPS
// the first `width` lanes have maps, and kinds are not compared.
template <bool ALL_MAPS>
DEVICE inline Span quick_warp_scan(Span span, int lane, int width, bool& needs_slow_path) {
#pragma unroll
  for (int distance = 1; distance < width; distance *= 2) {
    Span below = from_below(span, distance);
    if (ALL_MAPS) below.kind = span.kind = MAP;
    bool is_slow = false;
    const Span joined = join_quickly(below, span, is_slow);
    const bool has_below = lane >= distance;
#pragma unroll
    for (int k = 0; k < SLOTS; ++k) span.v[k] = has_below ? joined.v[k] : span.v[k];
    span.kind = has_below ? joined.kind : span.kind;
    needs_slow_path = needs_slow_path | (is_slow & has_below & (lane < width));
  }
  return span;
}

// Lane l receives the join of lanes 0..l, over the first `width` lanes.
template <bool ALL_MAPS = false>
DEVICE inline Span warp_scan(Span span, int lane, int width = 32) {
  if constexpr (Transfer::QUICK) {
    bool needs_slow_path = false;
    const Span quick = quick_warp_scan<ALL_MAPS>(span, lane, width, needs_slow_path);
    if (!__any_sync(ALL, needs_slow_path)) return quick;
  }
#pragma unroll(Transfer::QUICK ? 1 : 5)
  for (int distance = 1; distance < width; distance *= 2) {
    if constexpr (ALL_MAPS && !Transfer::QUICK) {
      const Span joined = join_maps(from_below(map_of(span), distance), span);
      if (lane >= distance) span = joined;
      continue;
    }
    const Span below = from_below(span, distance);
    if (lane >= distance) span = join(below, span);
  }
  return span;
}

// Lane 0 receives the join of all lanes.
DEVICE inline Span warp_reduce(Span span, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Span above = from_above(span, distance);
    if (lane % (2 * distance) == 0) span = join(span, above);
  }
  return span;
}

// The join of all lanes before this one; empty in lane 0.
DEVICE inline Span exclusive(const Span& inclusive, int lane) {
  Span below = from_below(inclusive, 1);
  if (lane == 0) below.kind = EMPTY;
  return below;
}

constexpr int WARPS = THREADS / 32;
static_assert(THREADS % 32 == 0 && WARPS <= 32, "a block is one to 32 whole warps");

// Barrier of the scanning threads; other warps of the block do not take part.
DEVICE inline void synchronize() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }

struct BlockScan {
  Span before;  // join of all earlier threads of the block
  Span total;   // join of the whole block, in every thread
};

// Scans spans across the threads of a block. Contains one barrier; `totals` may be reused after the
// caller's next one. With ALL_MAPS every thread has a map.
template <bool ALL_MAPS = false>
DEVICE inline BlockScan block_scan(const Span& mine, Span (&totals)[WARPS]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Span inclusive = warp_scan<ALL_MAPS>(mine, lane);
  if (lane == 31) totals[warp] = inclusive;
  synchronize();
  const Span warps =
      warp_scan<ALL_MAPS>(lane < WARPS ? totals[lane] : empty_span(), lane, WARPS);
  const Span earlier_warps = from_lane(warps, warp > 0 ? warp - 1 : 0);
  Span before = exclusive(inclusive, lane);
  if (warp > 0)
    before = ALL_MAPS && lane == 0 ? earlier_warps : join_known<ALL_MAPS>(earlier_warps, before);
  return {before, from_lane(warps, WARPS - 1)};
}

// Joins the pieces of each row to one map, by a warp for each row, in fixed order.
DEVICE void join_pieces(const Span* spans, long long rows, long long pieces,
                        T* const (&maps)[Transfer::WIDTH]) {
  const int lane = threadIdx.x % 32;
  const long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  const long long count = (pieces + 31) / 32, first = lane * count;
  Span span = empty_span();
  for (long long k = first; k < first + count && k < pieces; ++k)
    span = join(span, spans[row * pieces + k]);
  span = warp_reduce(span, lane);
  if (lane == 0)
    for (int k = 0; k < Transfer::WIDTH; ++k) maps[k][row] = span.v[k];
}

// The outcome of a speculation on w = s·w + t, which determines a chunk from a state of 0.
struct Told {
  double steps;        // of the prefix, after which no carry-in has an effect; 0 if not contractive
  double growth;       // log2 of the largest product of their first coefficients
  unsigned is_turned;  // whether an odd number of all coefficients is negative
  unsigned has_zero;   // whether one of them is 0
};

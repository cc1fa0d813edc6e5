// Marks of steps whose composed maps w -> A·w + B are not valid. The repair solves them by the loop.
// States are numbers, or vectors: then A is a matrix, and the loop solves marked rows from their start.
//
// Products of coefficients may overflow or underflow while the recurrence stays finite: then 0·inf
// gives nan where the loop has a number. A thread marks its steps if a state comes near overflow, or
// if its carry-in is small and came from a large state by an A that underflowed. The repair starts at
// the first mark of a row. If states come near overflow although operands are finite, rounding may
// decide what the loop does, and the loop solves the row from its start. Without marks the repair is
// an empty launch.
#pragma once
#include "engines/cuda/lookahead.cuh"
#include "scans/cuda/spans.cuh"

// Look-ahead by spans, whose kinds are those of items.
constexpr int UNITS = units_of(WORDS);

DEVICE inline void publish(Unit* descriptors, long long index, const Span& span, unsigned tag) {
  publish_words<WORDS>(descriptors + index * UNITS, span, tag + span.kind);
}

// Receives those of COUNT spans a lane that are `missing`; the others are empty. `index(k)` and `tag(k)`
// are those of the k-th span.
template <int COUNT, class Index, class Tag>
DEVICE inline void await_spans(const Unit* descriptors, unsigned missing, Span (&spans)[COUNT],
                               Index index, Tag tag) {
#pragma unroll
  for (int k = 0; k < COUNT; ++k) spans[k] = empty_span();
  const auto address = [&](int k) { return descriptors + index(k) * UNITS; };
  await_items<WORDS, COUNT>(missing, address, tag, [&](int k, bool has_arrived, const Unit* units) {
    Packed<Span> words;
#pragma unroll
    for (int u = 0; u < WORDS; ++u) words.word[u] = unsigned(units[u]);
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) spans[k].v[s] = has_arrived ? words.item.v[s] : spans[k].v[s];
    spans[k].kind = has_arrived ? int(unsigned(units[0] >> 32) & 3) : spans[k].kind;
  });
}

constexpr int RING = 4;  // carry-ins; a block's warps and its look-ahead are never 4 tiles apart

// Hardware barriers between a block's warps and its look-ahead warp, RING of each kind, since one side
// may be some tiles ahead. Barrier 0 is that of the block, 1 that of the scanning threads.
DEVICE inline int published(int tile_number) { return 2 + tile_number % RING; }
DEVICE inline int resolved(int tile_number) { return 7 + tile_number % RING; }
// The last warp of a block publishes its tile `tile_number`, for which the look-ahead warp waits.
DEVICE inline void announce_published(int tile_number) { arrive(published(tile_number), 64); }
DEVICE inline void await_published(int tile_number) { meet(published(tile_number), 64); }
// The look-ahead warp writes the carry-in of that tile, for which all scanning threads wait.
DEVICE inline void announce_resolved(int tile_number) {
  arrive(resolved(tile_number), THREADS + 32);
}
DEVICE inline void await_resolved(int tile_number) { meet(resolved(tile_number), THREADS + 32); }

constexpr unsigned long long TILE_BITS = 40;

// The first and the last mark of a launch, tagged so that nothing must be cleared.
struct Marks { unsigned long long first, last; };

DEVICE inline unsigned long long tagged(unsigned epoch, unsigned long long value) {
  return ((unsigned long long)epoch << TILE_BITS) | value;
}
constexpr unsigned long long TILE_MASK = (1ull << TILE_BITS) - 1;

template <class R> DEVICE inline bool is_nan(R x) { return x != x; }
template <class R> DEVICE inline bool is_nan(complex<R> x) { return x.re != x.re && x.im != x.im; }
template <class I> DEVICE inline bool is_below(I, Size) { return true; }
DEVICE inline bool is_below(float x, Size limit) { return fabs(x) < limit; }
DEVICE inline bool is_below(double x, Size limit) { return fabs(x) < limit; }
template <class R> DEVICE inline bool is_below(complex<R> x, Size limit) {
  return fabs(x.re) < limit && fabs(x.im) < limit;
}
DEVICE inline bool are_below(const Transfer::State& state, Size limit) {
  bool below = true;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) below = below && is_below(state.v[q], limit);
  return below;
}
DEVICE inline bool is_finite(const Transfer::State& state) {
  return are_below(state, infinity<Size>());
}
// Neither nan nor near overflow.
DEVICE inline bool is_in_range(const Transfer::State& state) {
  return are_below(state, Limits::MODERATE);
}

// The leading bits of a number's size, less than those of MODERATE if it is in range. Compared as
// numbers, 36 states made a chain of predicates that took 2 to 4% of the time of a tile.
template <class I> DEVICE inline int height_of(I) { return 0; }
DEVICE inline int height_of(float x) { return bits_of(x) & 0x7fffffff; }
DEVICE inline int height_of(double x) { return top_bits_of(x) & 0x7fffffff; }
template <class R> DEVICE inline int height_of(complex<R> x) {
  const int re = height_of(x.re), im = height_of(x.im);
  return re > im ? re : im;
}
DEVICE inline bool is_height_in_range(int height) {
  return height < height_of(Size(Limits::MODERATE));
}

// Returns whether a state is no longer in range after a step, although its operands are finite.
DEVICE inline bool grows(const Transfer::Map& step, const Transfer::State& before,
                         const Transfer::State& reached) {
  bool finite = is_finite(before);
#pragma unroll
  for (int k = 0; k < Transfer::WIDTH; ++k)
    finite = finite && is_below(step.v[k], infinity<Size>());
  return finite && !is_in_range(reached);
}

// The largest number of a state.
DEVICE inline Size size_of(const Transfer::State& state) {
  Size size = size_of(state.v[0]);
#pragma unroll
  for (int q = 1; q < Transfer::STATES; ++q) size = fmax(size, size_of(state.v[q]));
  return size;
}

// An A below 2^-126 (2^-1022) lost digits. They matter in a state as small relative to its carry-in.
// Matrices have zeros besides lost entries, and are not tested.
DEVICE inline bool is_suspect(const Span& span, const Transfer::State& carry_in,
                              const Transfer::State& reached) {
  if (span.kind != MAP) return false;
  const Size size = size_of(carry_in);
  const bool may_be_lost = Transfer::STATES > 1 || is_lost(span.v[0]);
  return may_be_lost && size > LARGE && size_of(reached) < Limits::APART * size;
}

DEVICE inline void mark(Marks& marks, unsigned long long first, unsigned long long last,
                        unsigned epoch) {
  atomicMax(&marks.first, tagged(epoch, TILE_MASK - first));
  atomicMax(&marks.last, tagged(epoch, last));
}
DEVICE inline void mark(Marks& marks, unsigned long long index, unsigned epoch) {
  mark(marks, index, index, epoch);
}

// 64-bit words of the marks of a chunk and of its row groups.
DEVICE inline long long marked_units(long long row_groups) {
  return GUARDED ? 2 + 2 * row_groups : 0;
}

// Marks of a chunk: its marked row groups (a row, or 32 columns), and the steps of each, in time.
struct RepairList {
  Marks* marks;
  unsigned epoch;
  DEVICE void add(long long row_group, long long first, long long last) const {
    mark(marks[0], row_group, epoch);
    mark(marks[1 + row_group], first, last, epoch);
  }
};

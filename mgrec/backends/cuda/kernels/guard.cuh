// Where a composed map w -> A·w + B cannot be trusted, the loop itself decides.
//
// Products of coefficients overflow or underflow while the recurrence stays finite: then 0·inf
// gives nan where the loop has a number. A thread whose entry is not finite, or was scaled by an
// underflowed A although it is large, marks its steps, and so does one whose last state is not
// finite. A repair begins at the first mark of a row. Nothing marked: one empty launch.
#pragma once
#include "lookahead.cuh"

constexpr unsigned long long TILE_BITS = 40;

// The first and the last of what one launch has marked, tagged so that nothing must be cleared.
struct Marks { unsigned long long first, last; };

DEVICE inline unsigned long long tagged(unsigned epoch, unsigned long long value) {
  return ((unsigned long long)epoch << TILE_BITS) | value;
}
constexpr unsigned long long TILE_MASK = (1ull << TILE_BITS) - 1;

template <class I> DEVICE inline double size_of(I x) { return fabs(double(x)); }
DEVICE inline float size_of(float x) { return fabs(x); }
DEVICE inline double size_of(double x) { return fabs(x); }
template <class R> DEVICE inline R size_of(complex<R> x) { return fmax(fabs(x.re), fabs(x.im)); }

DEVICE inline bool is_finite(const Transfer::State& state) {
  bool finite = true;
#pragma unroll
  for (int q = 0; q < Transfer::STATES; ++q) finite = finite && np_isfinite(size_of(state.v[q]));
  return finite;
}

// A below 2^-126 (2^-1022) lost digits; what they carry shows only where the entry is large.
DEVICE inline bool is_doubtful(const Span& span, const Transfer::State& entry) {
  if (span.kind != MAP) return false;
  const auto product = size_of(span.v[0]);
  const bool lost = sizeof(product) == 4 ? product < 1.2e-38 : product < 2.3e-308;
  return lost && size_of(entry.v[0]) > 1e6;
}

DEVICE inline void mark(Marks& marks, unsigned long long first, unsigned long long last,
                        unsigned epoch) {
  atomicMax(&marks.first, tagged(epoch, TILE_MASK - first));
  atomicMax(&marks.last, tagged(epoch, last));
}
DEVICE inline void mark(Marks& marks, unsigned long long place, unsigned epoch) {
  mark(marks, place, place, epoch);
}

// 64-bit words of the marks of so many lines, and of the marks of the lines themselves.
DEVICE inline long long marked_units(long long lines) { return GUARDED ? 2 + 2 * lines : 0; }

// Marks of a chunk: of its lines (rows, or groups of 32 columns), then of the steps of each, in time.
struct Ledger {
  Marks* marks;
  unsigned epoch;
  DEVICE void enter(long long line, long long first, long long last) const {
    mark(marks[0], line, epoch);
    mark(marks[1 + line], first, last, epoch);
  }
};

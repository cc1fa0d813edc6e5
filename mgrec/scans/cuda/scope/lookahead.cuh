// Look-ahead across the grid: every block publishes the spans of its tiles and folds those of others.
//
// A span is published as 64-bit words, half data and half tag. Each word is written and read whole,
// so a span needs no fence, no flag of its own and no 128-bit access (.v4 accesses of 32 bits tear).
// The tag distinguishes launches and turns of a ring, so that nothing must be cleared.
#pragma once
#include "engines/cuda/memory/exchange.cuh"
#include "scans/cuda/scope/block.cuh"

constexpr int UNITS = WORDS + WORDS % 2;  // even, so that pairs are aligned to 16 bytes

DEVICE inline void publish(Unit* descriptors, long long place, const Span& span, unsigned tag) {
  Packed packed;
  packed.span = span;
  const Unit high = Unit(tag * 4 + span.kind) << 32;
#pragma unroll
  for (int u = 0; u < UNITS; u += 2) {
    const Unit first = high | packed.word[u];
    const Unit second = high | (u + 1 < WORDS ? packed.word[u + 1] : 0);
    store_pair(descriptors + place * UNITS + u, first, second);
  }
}

// Returns false while any word is from an earlier publication.
DEVICE inline bool received(const Unit* descriptors, long long place, unsigned tag, Span& span) {
  Packed packed;
  bool complete = true;
  unsigned high = 0;
#pragma unroll
  for (int u = 0; u < UNITS; u += 2) {
    Unit first, second;
    load_pair(descriptors + place * UNITS + u, first, second);
    packed.word[u] = unsigned(first);
    if (u + 1 < WORDS) packed.word[u + 1] = unsigned(second);
    high = unsigned(first >> 32);
    complete = complete && (high >> 2) == tag && unsigned(second >> 32) == high;
  }
  span = packed.span;
  span.kind = high & 3;
  return complete;
}

// `received` in two parts, for several spans at once: `taken` of all follows a __syncwarp(). Without
// it, and with a branch around each poll, each poll waited for the one before: 0.85 of the floor
// became 0.57.
DEVICE inline void poll_if(bool asked, const Unit* descriptors, long long place,
                           Unit (&units)[UNITS]) {
#pragma unroll
  for (int u = 0; u < UNITS; u += 2)
    load_pair_if(asked, descriptors + place * UNITS + u, units[u], units[u + 1]);
}
// Returns whether the requested span has arrived; else `span` is unchanged.
DEVICE inline bool taken(const Unit (&units)[UNITS], unsigned tag, bool asked, Span& span) {
  Packed packed;
  bool complete = asked;
  unsigned high = 0;
#pragma unroll
  for (int u = 0; u < UNITS; u += 2) {
    packed.word[u] = unsigned(units[u]);
    if (u + 1 < WORDS) packed.word[u + 1] = unsigned(units[u + 1]);
    high = unsigned(units[u] >> 32);
    complete = complete & ((high >> 2) == tag) & (unsigned(units[u + 1] >> 32) == high);
  }
#pragma unroll
  for (int k = 0; k < SLOTS; ++k) span.v[k] = complete ? packed.span.v[k] : span.v[k];
  span.kind = complete ? int(high & 3) : span.kind;
  return complete;
}

constexpr int RING = 4;  // carry-ins; a block's warps and its look-ahead are never 4 tiles apart

// Hardware barriers between a block's warps and its look-ahead warp, RING of each kind, since one side
// may be some tiles ahead. Barrier 0 is that of the block, 1 that of the scanning threads.
DEVICE inline int published(int turn) { return 2 + turn % RING; }
DEVICE inline int resolved(int turn) { return 7 + turn % RING; }
// The last warp of a block publishes its tile `turn`, for which the look-ahead warp waits.
DEVICE inline void announce_published(int turn) { arrive(published(turn), 64); }
DEVICE inline void await_published(int turn) { meet(published(turn), 64); }
// The look-ahead warp writes the carry-in of that tile, for which all scanning threads wait.
DEVICE inline void announce_resolved(int turn) { arrive(resolved(turn), THREADS + 32); }
DEVICE inline void await_resolved(int turn) { meet(resolved(turn), THREADS + 32); }

// What is known of a run of steps: nothing yet, its composed map, or the state after it.
//
// A run is empty where threads stand past the end, a map where the state before it is unknown,
// a state once a row begins inside it. Emptiness is a kind, not the identity map: composing with
// (1, 0) would turn 0·inf into nan.
#pragma once
#include "scans/cuda/trust/tracked.cuh"

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

// Every combination is computed and one selected: with branches, two thirds of a scan's time went
// into their reconvergence.
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

// The same without a branch; sets `odd` where the result must be found by `join` instead.
DEVICE inline Span join_quickly(const Span& earlier, const Span& later, bool& odd) {
  bool is_odd = false;
  Span joined =
      span_of(Transfer::compose_quickly(map_of(earlier), map_of(later), is_odd));
  if (MAY_KNOW_STATE) {
    bool is_odd_state = false;
    const Span known =
        span_of(Transfer::apply_quickly(map_of(later), state_of(earlier), is_odd_state));
    if (earlier.kind == STATE) joined = known, is_odd = is_odd_state;
  }
  odd = odd | (is_odd & (earlier.kind != EMPTY) & (later.kind == MAP));
  if (earlier.kind == EMPTY || (MAY_KNOW_STATE && later.kind == STATE)) joined = later;
  if (later.kind == EMPTY) joined = earlier;
  return joined;
}

DEVICE inline Transfer::State after(const Span& span, const Transfer::State& entry) {
  if (span.kind == EMPTY) return entry;
  return span.kind == STATE ? state_of(span) : Transfer::apply(map_of(span), entry);
}

// A span as 32-bit words, the form in which it is shuffled and published.
union Packed {
  Span span;
  unsigned word[sizeof(Span) / 4];
  DEVICE Packed() {}
};

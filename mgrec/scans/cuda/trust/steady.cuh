// The composed tiles of a block whose threads compose their steps one by one.
#pragma once
#include "scans/cuda/spans.cuh"

struct BoundedMap {};  // unused

struct Running {
  Span span;
  DEVICE Running() : span(empty_span()) {}
  DEVICE Span whole() const { return span; }

  // Joins the next tile; see bounded.cuh.
  template <class Has, class Steps, class Load, class Across>
  DEVICE void take(const Source&, const Items&, bool, Has, Steps step_by_step, Load load_next,
                   Across across) {
    const Span tile = across.join_spans(step_by_step());
    load_next();
    span = join(span, tile);
  }
};

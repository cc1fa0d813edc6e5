// What a block knows of its tiles so far, where every thread composes its steps one by one.
#pragma once
#include "scans/cuda/scope/block.cuh"

struct Calm {};  // no tile is known to be

struct Running {
  Span span;
  DEVICE Running() : span(empty_span()) {}
  DEVICE Span whole() const { return span; }

  // Joins one more tile; see calm.cuh.
  template <class Has, class Steps, class Load, class Across>
  DEVICE void take(const Source&, const Items&, bool, Has, Steps step_by_step, Load load_next,
                   Across across) {
    const Span tile = across.join_spans(step_by_step());
    load_next();
    span = join(span, tile);
  }
};

// The messages of ranks that filter a signal together, each with a run of samples.
//
// Every rank filters its samples from states of 0. The states after them do not depend on those before,
// since a filter forgets them: they are the carry-in of the next rank.
#pragma once
#include "engines/cuda/message.cuh"

struct State {
  double after, before;  // the samples of a rank; the first rank knows the state before
};

DEVICE inline bool is_finite_number(double x) { return x - x == 0; }

// `after` has a row of numbers for each state, `stride` apart. Without `before` these are 0.
DEVICE void write_states(const double* after, long long stride, const double* before, int states,
                         int inners, long long digest, Message<State> message) {
  for (int k = threadIdx.x; k < states * inners; k += blockDim.x)
    message.rows[k] = {after[k / inners * stride + k % inners], before ? before[k] : 0};
  message.write_header(digest, 1);
}

// Writes the states before the samples of a rank, and after those of the last one.
DEVICE void propagate(const Messages<State> messages, int rank, int size, long long digest,
                      int count, double* carry_in, double* last, long long* status) {
  bool fails = !messages.agree(size, digest);
  for (int k = threadIdx.x; k < count && !fails; k += blockDim.x) {
    double state = messages.of(0).rows[k].before;
    for (int other = 0; other < size; ++other) {
      fails = fails || !is_finite_number(state);
      if (other == rank) carry_in[k] = state;
      state = messages.of(other).rows[k].after;
    }
    fails = fails || !is_finite_number(state);
    last[k] = state;
  }
  report(fails, status);
}

// Passes whose state is one of N, or none: the best path from its end, and a random one.
//
// A state in memory is its number plus 1; 0 is none.
#pragma once
#include "scans/matrix/cuda/segments.cuh"

constexpr unsigned char NO_STATE = 255;

struct States {
  static constexpr int LANES = N + 1, MAP = N + 1, STATE = 1;
  DEVICE static void apply(const double* map, double* state) { state[0] = map[int(state[0])]; }
  DEVICE static void apply_back(const double* map, double* state) { apply(map, state); }
};

// Follows pointers from the last step to the first.
struct Follow : States {
  Operand frames, transmat, startprob;
  double* log_probs;  // of each segment
  const unsigned char* pointers;
  int* states;
  Sizes sizes;

  DEVICE const unsigned char* pointers_of(const Range& r, long long step) const {
    return pointers + ((r.outer * sizes.steps + step) * sizes.inners + r.inner) * (N + 1);
  }
  // The state at a step, from that at the next one: none is the one with the highest score.
  DEVICE static int resolve(const unsigned char* of_step, int state) {
    return state < 0 ? of_step[N] : state;
  }
  DEVICE static int before(const unsigned char* of_step, int state) {
    return of_step[state] == NO_STATE ? -1 : of_step[state];
  }

  DEVICE void summarise(const Range& r, int lane, double* map) const {
    int state = lane - 1;
    for (long long step = r.end - 1; step >= r.begin; --step) {
      const unsigned char* of_step = pointers_of(r, step);
      state = before(of_step, resolve(of_step, state));
    }
    map[lane] = state + 1;
  }
  DEVICE void join(const double* maps, int count, int lane, double* map) const {
    double state = lane;
    for (int k = count - 1; k >= 0; --k) apply(maps + k * MAP, &state);
    map[lane] = state;
  }

  // nan and inf, which scores ignore, are not valid.
  DEVICE static bool is_valid(const double* logarithms, int count) {
    bool valid = true;
    for (int k = 0; k < count; ++k) valid = valid && logarithms[k] < infinity<double>();
    return valid;
  }
  DEVICE void determine(const Range& r, const double*, const double* after) const {
    if (r.begin == r.end) return;
    int state = r.end == sizes.steps && !r.goes_on ? -1 : int(after[0]) - 1;
    double sum = 0.0;
    bool is_checked = false, valid = true;
    for (long long step = r.end - 1; step >= r.begin; --step) {
      const unsigned char* of_step = pointers_of(r, step);
      state = resolve(of_step, state);
      states[(r.outer * sizes.steps + step) * sizes.inners + r.inner] = state;
      const int earlier = before(of_step, state);
      const double* frame = frames.at(r.outer, step, r.inner);
      const double* from = earlier < 0 ? startprob.at(r.outer, 0, r.inner)
                                       : transmat.at(r.outer, step, r.inner);
      if (earlier < 0 || transmat.step || !is_checked) {
        valid = valid && is_valid(from, earlier < 0 ? N : N * N);
        is_checked = is_checked || earlier >= 0;
      }
      valid = valid && is_valid(frame, N);
      sum += from[earlier < 0 ? state : earlier * N + state] + frame[state];
      state = earlier;
    }
    log_probs[r.number] = valid ? sum : not_a_number<double>();
  }
};

// Draws the state at each step from that before it, and from a uniform number.
struct Draw : States {
  Operand uniform, transmat, startprob;
  Marks marks;
  int* states;
  Sizes sizes;

  DEVICE int next(const Range& r, long long step, int state) const {
    const bool starts = state < 0 || (step == 0 && !r.continues) ||
                        (marks.first && *marks.at(r.outer, step, r.inner));
    const double* from = starts ? startprob.at(r.outer, 0, r.inner)
                                : transmat.at(r.outer, step, r.inner) + state * N;
    const double number = *uniform.at(r.outer, step, r.inner);
    // If the sum is below 1, the last state of positive probability.
    double total = 0.0;
    int drawn = 0;
    for (int j = 0; j < N; ++j) {
      if (!(from[j] > 0.0)) continue;
      drawn = j;
      total += from[j];
      if (total > number) break;
    }
    return drawn;
  }
  DEVICE void summarise(const Range& r, int lane, double* map) const {
    int state = lane - 1;
    for (long long step = r.begin; step < r.end; ++step) state = next(r, step, state);
    map[lane] = state + 1;
  }
  DEVICE void join(const double* maps, int count, int lane, double* map) const {
    double state = lane;
    for (int k = 0; k < count; ++k) apply(maps + k * MAP, &state);
    map[lane] = state;
  }
  DEVICE void determine(const Range& r, const double* before, const double*) const {
    if (r.begin == r.end) return;
    int state = r.begin == 0 && !r.continues ? -1 : int(before[0]) - 1;
    for (long long step = r.begin; step < r.end; ++step) {
      state = next(r, step, state);
      states[(r.outer * sizes.steps + step) * sizes.inners + r.inner] = state;
    }
  }
};

// Weights of N states, and maps of the weights before a segment to those after it.
//
// Maps and states are logarithms. If BEST, the largest path counts in place of the sum of all.
#pragma once
#include "scans/matrix/cuda/segments.cuh"

constexpr double TINY = 1e-290, LOW = 1e-250, LOG_2 = 0.6931471805599453;  // see hmm/recurrence.py
// Powers count logarithms of this size, so that their differences are exact.
constexpr double UNIT = BEST ? 1.0 : LOG_2;
constexpr double NEVER = -1e30;  // power of numbers that are all 0

// log Σ exp(x(i)), or the largest x(i).
template <class X> DEVICE inline double log_sum(const X& x) {
  double most = -infinity<double>(), sum = 0.0;
#pragma unroll 1
  for (int i = 0; i < N; ++i) most = x(i) > most ? x(i) : most;
  if (BEST) return most;
  if (!(fabs(most) < infinity<double>())) most = 0.0;
#pragma unroll 1
  for (int i = 0; i < N; ++i) sum += exp(x(i) - most);
  return most + log(sum);
}

// Weights of states times 2^power; their logarithms in a LOG pass.
struct Weights {
  double v[N], power;

  template <bool LOG> DEVICE void rescale() {
    double total = LOG ? -infinity<double>() : 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) {
      if (LOG) total = v[j] > total ? v[j] : total;
      else total += v[j];
    }
    int exponent = 0;
    if (LOG) {
      if (!(fabs(total) < infinity<double>())) return;
      const double whole = rint(total / UNIT);
#pragma unroll (LOG ? 1 : UNROLL)
      for (int j = 0; j < N; ++j) v[j] -= whole * UNIT;
      power += whole;
      return;
    }
    if (!(total > 0.0 && total < infinity<double>())) return;
    frexp(total, &exponent);
    const double factor = ldexp(1.0, -exponent);
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) v[j] *= factor;
    power += exponent;
  }

  // The logarithm of the sum, without that of the power.
  template <bool LOG> DEVICE double log_total() const {
    if (LOG) return log_sum([&](int j) { return v[j]; });
    double total = 0.0;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) total += v[j];
    return log(total);
  }

  template <bool LOG> DEVICE void to_logarithms() {
    if (LOG) return;
#pragma unroll (LOG ? 1 : UNROLL)
    for (int j = 0; j < N; ++j) v[j] = log(v[j]);
  }

  // Returns whether a number is tiny, although it is not 0 or nan.
  DEVICE bool is_tiny() const {
    bool tiny = false;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) tiny = tiny || (v[j] != 0.0 && v[j] < TINY);
    return tiny;
  }
};

struct Map {
  double v[N][N], power[N];     // weights after a segment, for each state before it
  double first[N], first_power[N];  // of the observations before the first start in it
  double starts;                // whether there is one: all rows of v are the same
};

// What the forward pass and the scores of best paths share.
struct Maps {
  static constexpr int LANES = N, MAP = sizeof(Map) / sizeof(double), STATE = N;
  Operand frames, transmat, startprob;
  Marks marks;

  DEVICE bool is_start(const Range& r, long long step) const {
    return (step == 0 && !r.continues) ||
           (marks.first && *marks.at(r.outer, step, r.inner));
  }
  // The largest logarithm of a step.
  DEVICE static double shift_of(const double* frame) {
    double most = -infinity<double>();
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) most = frame[j] > most ? frame[j] : most;
    return fabs(most) < infinity<double>() ? most : 0.0;
  }

  DEVICE static void store(const Weights& w, bool starts, int lane, Map* map) {
    bool possible = false;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      map->v[lane][j] = w.v[j];
      possible = possible || w.v[j] != -infinity<double>();
    }
    map->power[lane] = possible ? w.power : NEVER;
    if (lane == 0) map->starts = starts;
  }


  // Replaces logarithms of weights before a map by those after it.
  DEVICE static void follow(const Map& map, Weights& w) {
    const Weights before = w;
    const double base = power_of(map.power, before);
    for (int j = 0; j < N; ++j)
      w.v[j] = log_sum([&](int i) {
        return before.v[i] + map.v[i][j] + (map.power[i] - base) * UNIT;
      });
    w.power += base;
    w.template rescale<true>();
  }
  // The largest power of the states that are possible.
  DEVICE static double power_of(const double (&powers)[N], const Weights& w) {
    double most = NEVER;
    for (int i = 0; i < N; ++i)
      if (w.v[i] != -infinity<double>() && powers[i] > most) most = powers[i];
    return most;
  }

  DEVICE void join(const double* maps, int count, int lane, double* memory) const {
    const Map* map = reinterpret_cast<const Map*>(maps);
    Map* joined = reinterpret_cast<Map*>(memory);
    Weights w;
    bool starts = map->starts;
    load(*map, lane, w);
    joined->first[lane] = map->first[lane];
    joined->first_power[lane] = map->first_power[lane];
    for (int k = 1; k < count; ++k) {
      if (map[k].starts && !starts) {
        const double base = power_of(map[k].first_power, w);
        joined->first[lane] = log_sum([&](int i) {
          return w.v[i] + map[k].first[i] + (map[k].first_power[i] - base) * UNIT;
        });
        joined->first_power[lane] = w.power + base;
      }
      starts = starts || map[k].starts;
      if (map[k].starts) load(map[k], lane, w);
      else follow(map[k], w);
    }
    store(w, starts, lane, joined);
  }
  DEVICE static void load(const Map& map, int lane, Weights& w) {
    w.power = map.power[lane];
    for (int j = 0; j < N; ++j) w.v[j] = map.v[lane][j];
  }

  DEVICE void apply(const double* memory, double* state) const {
    const Map& map = *reinterpret_cast<const Map*>(memory);
    Weights w;
    for (int j = 0; j < N; ++j) w.v[j] = map.starts ? map.v[0][j] : state[j];
    if (!map.starts) follow(map, w);
    const double total = w.log_total<true>();
    for (int j = 0; j < N; ++j) state[j] = w.v[j] - (total > -infinity<double>() ? total : 0.0);
  }
};

// Affine maps of N states, w = M ⊗ w ⊕ b. E is the dtype of results.
//
// A map has the images of N unit vectors, each times a power of 2 over (+, *), and that of zero.
#pragma once
#include "scans/matrix/cuda/segments.cuh"

enum { PLUS_TIMES, MAX_PLUS, MIN_PLUS, LOGSUMEXP_PLUS };  // in the order of ALGEBRAS

struct Map { double images[N + 1][N], power[N], starts; };

struct Pass {
  static constexpr int LANES = N + 1, MAP = sizeof(Map) / sizeof(double), STATE = N;
  Operand matrices, vectors, initial;
  Marks marks;
  E* states;
  Sizes sizes;

  DEVICE static double zero() {
    if (ALGEBRA == PLUS_TIMES) return 0.0;
    return ALGEBRA == MIN_PLUS ? infinity<double>() : -infinity<double>();
  }
  DEVICE static double times(double x, double y) { return ALGEBRA == PLUS_TIMES ? x * y : x + y; }
  DEVICE static double add(double x, double y) {
    if (ALGEBRA == PLUS_TIMES || x != x || y != y) return x + y;
    if (ALGEBRA == LOGSUMEXP_PLUS) {
      const double most = x > y ? x : y, least = x > y ? y : x;
      return most == least ? most + log(2.0) : most + log1p(exp(least - most));
    }
    return ALGEBRA == MIN_PLUS ? (y < x ? y : x) : (y > x ? y : x);
  }
  // M ⊗ w ⊕ b, without b if it is null.
  DEVICE static void advance(const double* M, const double* b, double (&w)[N]) {
    double before[N];
    for (int i = 0; i < N; ++i) before[i] = w[i];
    for (int i = 0; i < N; ++i) {
      double sum = times(M[DIAGONAL ? i : i * N], before[DIAGONAL ? i : 0]);
      if (!DIAGONAL)
        for (int j = 1; j < N; ++j) sum = add(sum, times(M[i * N + j], before[j]));
      w[i] = b ? add(sum, b[i]) : sum;
    }
  }
  DEVICE static void rescale(double (&w)[N], double& power) {
    if (ALGEBRA != PLUS_TIMES) return;
    double most = 0.0;
    for (int i = 0; i < N; ++i) most = fabs(w[i]) > most ? fabs(w[i]) : most;
    if (!(most > 0.0 && most < infinity<double>())) return;
    int exponent;
    frexp(most, &exponent);
    for (int i = 0; i < N; ++i) w[i] = ldexp(w[i], -exponent);
    power += exponent;
  }
  DEVICE bool is_start(const Range& r, long long step) const {
    return step == 0 || (marks.first && *marks.at(r.outer, step, r.inner));
  }
  DEVICE void start(const Range& r, double (&w)[N]) const {
    const double* first = initial.at(r.outer, 0, r.inner);
    for (int i = 0; i < N; ++i) w[i] = first[i];
  }

  DEVICE void summarise(const Range& r, int lane, double* memory) const {
    Map* map = reinterpret_cast<Map*>(memory);
    const bool is_unit = lane < N;
    double w[N], power = 0.0;
    bool starts = false;
    for (int i = 0; i < N; ++i) w[i] = i != lane ? zero() : ALGEBRA == PLUS_TIMES ? 1.0 : 0.0;
    for (long long step = r.begin; step < r.end; ++step) {
      if (is_start(r, step)) {
        starts = true;
        if (!is_unit) start(r, w);
      }
      advance(matrices.at(r.outer, step, r.inner),
              is_unit ? nullptr : vectors.at(r.outer, step, r.inner), w);
      if (is_unit) rescale(w, power);
    }
    store(w, power, starts, lane, map);
  }
  DEVICE static void store(const double (&w)[N], double power, bool starts, int lane, Map* map) {
    for (int i = 0; i < N; ++i) map->images[lane][i] = w[i];
    if (lane < N) map->power[lane] = power;
    else map->starts = starts;
  }

  // Replaces a state times 2^power by its image; the image of zero is added unless it is a unit's.
  DEVICE static void follow(const Map& map, bool is_unit, double (&w)[N], double& power) {
    double before[N], most = -1e300;
    for (int j = 0; j < N; ++j) {
      before[j] = w[j];
      if (w[j] != 0.0 && map.power[j] > most) most = map.power[j];
    }
    // Without a unit there is no power to keep.
    const double base = is_unit && ALGEBRA == PLUS_TIMES ? most : 0.0;
    for (int i = 0; i < N; ++i) {
      double sum = is_unit ? zero() : map.images[N][i];
      if (!map.starts)
        for (int j = 0; j < N; ++j) {
          double term = times(map.images[j][i], before[j]);
          if (ALGEBRA == PLUS_TIMES) term = scaled(map.images[j][i], before[j], map.power[j] - base);
          sum = add(sum, term);
        }
      w[i] = sum;
    }
    if (is_unit) power += base, rescale(w, power);
  }
  // x·y·2^power, of which parts may overflow or underflow.
  DEVICE static double scaled(double x, double y, double power) {
    if (x == 0.0 || y == 0.0) return x * y;
    int of_x, of_y;
    const double product = frexp(x, &of_x) * frexp(y, &of_y);
    power = fmin(fmax(power, -4400.0), 4400.0);
    return ldexp(product, int(power) + of_x + of_y);
  }

  DEVICE void join(const double* maps, int count, int lane, double* memory) const {
    const Map* map = reinterpret_cast<const Map*>(maps);
    const bool is_unit = lane < N;
    double w[N], power = is_unit ? map->power[lane] : 0.0;
    bool starts = map->starts;
    for (int i = 0; i < N; ++i) w[i] = map->images[lane][i];
    for (int k = 1; k < count; ++k) {
      follow(map[k], is_unit, w, power);
      starts = starts || map[k].starts;
    }
    store(w, power, starts, lane, reinterpret_cast<Map*>(memory));
  }
  DEVICE void apply(const double* memory, double* state) const {
    double w[N], power = 0.0;
    for (int i = 0; i < N; ++i) w[i] = state[i];
    follow(*reinterpret_cast<const Map*>(memory), false, w, power);
    for (int i = 0; i < N; ++i) state[i] = w[i];
  }
  DEVICE void apply_back(const double*, double*) const {}

  DEVICE void determine(const Range& r, const double* before, const double*) const {
    if (r.begin == r.end) return;
    double w[N];
    for (int i = 0; i < N; ++i) w[i] = before[i];
    for (long long step = r.begin; step < r.end; ++step) {
      if (is_start(r, step)) start(r, w);
      advance(matrices.at(r.outer, step, r.inner), vectors.at(r.outer, step, r.inner), w);
      const long long k = REVERSE ? sizes.steps - 1 - step : step;
      const long long place = ((r.outer * sizes.steps + k) * sizes.inners + r.inner) * N;
      for (int i = 0; i < N; ++i) states[place + i] = E(w[i]);
    }
  }
};

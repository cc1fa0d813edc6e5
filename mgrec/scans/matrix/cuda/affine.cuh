// Affine maps of N states, w = M ⊗ w ⊕ b. E is the dtype of results.
//
// A map has the images of N unit vectors, each times a power of 2 over (+, *), and that of zero.
//
// A model has the operands of its steps, and the numbers WIDTH of a result:
//   Step step_of(const Range& range, long long step) const;
//   void Step::advance(bool is_unit, double (&w)[N]);
//   double Step::result(const double (&w)[N], int i) const;  // the i-th number, after `advance`
// The image of a unit vector is without b, and has no result.
#pragma once
#include "scans/matrix/cuda/segments.cuh"

enum { PLUS_TIMES, MAX_PLUS, MIN_PLUS, LOGSUMEXP_PLUS };  // in the order of ALGEBRAS

DEVICE inline double zero() {
  if (ALGEBRA == PLUS_TIMES) return 0.0;
  return ALGEBRA == MIN_PLUS ? infinity<double>() : -infinity<double>();
}
DEVICE inline double times(double x, double y) { return ALGEBRA == PLUS_TIMES ? x * y : x + y; }
DEVICE inline double add(double x, double y) {
  if (ALGEBRA == PLUS_TIMES || x != x || y != y) return x + y;
  if (ALGEBRA == LOGSUMEXP_PLUS) {
    const double most = x > y ? x : y, least = x > y ? y : x;
    return most == least ? most + log(2.0) : most + log1p(exp(least - most));
  }
  return ALGEBRA == MIN_PLUS ? (y < x ? y : x) : (y > x ? y : x);
}
constexpr bool IS_SMALL = SUMMARY_LANES == 1;

DEVICE inline double power_of_2(int exponent) {
  Bits64 power;
  power.bits = (long long)(exponent + 1023) << 52;
  return power.number;
}
// Factors of x·2^power: a power of 2 and a number of about the same size. Products with one after the
// other overflow or vanish only if that with x·2^power does.
struct Factors {
  double power, number;
  DEVICE Factors(double x) : power(1.0), number(x) {}
  DEVICE Factors(double x, double exponent) : Factors(x) {
    if (!(fabs(x) > 0.0 && fabs(x) < infinity<double>())) return;
    const bool is_small = fabs(x) < 1e-300;
    Bits64 mantissa;
    mantissa.number = is_small ? x * power_of_2(64) : x;
    int all = int(mantissa.bits >> 52 & 2047) - 1023 - (is_small ? 64 : 0);
    all += int(fmin(fmax(exponent, -4400.0), 4400.0));
    all = all < -2000 ? -2000 : all > 2000 ? 2000 : all;
    mantissa.bits = (mantissa.bits & ~(2047ll << 52)) | 1023ll << 52;
    power = power_of_2(all / 2);
    number = mantissa.number * power_of_2(all - all / 2);
  }
};

struct PlainMap {
  double images[N + 1][N], power[N], starts;
  // The largest number of M. One with a power is beyond 1e100, or as small.
  DEVICE double size() const {
    double most = 0.0;
    for (int j = 0; j < N; ++j)
      for (int i = 0; i < N; ++i)
        if (power[j] >= 0.0) most = fmax(most, power[j] > 0.0 ? 1e100 : fabs(images[j][i]));
    return most;
  }
};
// And the largest size of all maps of which it was joined, if the program measures it.
template <bool> struct MapOf : PlainMap {
  DEVICE double growth() const { return 0.0; }
  DEVICE void set_growth(double) {}
};
template <> struct MapOf<true> : PlainMap {
  double largest;
  DEVICE double growth() const { return largest; }
  DEVICE void set_growth(double growth) { largest = growth; }
};
typedef MapOf<MEASURES> Map;

template <class Model> struct AffinePass {
  static constexpr int LANES = N + 1, MAP = sizeof(Map) / sizeof(double), STATE = N;
  static constexpr int WIDTH = Model::WIDTH;
  Model model;
  Operand initial;
  Marks marks;
  E* results;
  double* last_states;  // of rows, or null
  Sizes sizes;

  // Keeps the largest number near 1 if it would soon overflow or underflow.
  DEVICE static void rescale(double (&w)[N], double& power) {
    if (ALGEBRA != PLUS_TIMES) return;
    int top = 0;  // upper half of the largest number
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) {
      Bits64 number;
      number.number = w[i];
      const int half = int(number.bits >> 32) & 0x7fffffff;
      if (half < 2047 << 20 && half > top) top = half;
    }
    constexpr int SAFE = 332 << 20, ONE = 1023 << 20;  // from 1e-100 to 1e100
    if (top == 0 || (top > ONE - SAFE && top < ONE + SAFE)) return;
    const int field = top >> 20, shift = field > 0 ? 1024 - field : 1023;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) w[i] *= power_of_2(shift);
    power -= shift;
  }
  DEVICE bool is_start(const Range& r, long long step) const {
    return (step == 0 && !r.continues) ||
           (marks.first && *marks.at(r.outer, step, r.inner));
  }
  DEVICE void start(const Range& r, double (&w)[N]) const {
    const double* first = initial.at(r.outer, 0, r.inner);
    for (int i = 0; i < N; ++i) w[i] = first[i];
  }

  DEVICE void summarise(const Range& r, int lane, double* memory) const {
    summarise_lanes<IS_SMALL ? LANES : 1>(r, lane, memory);
  }
  // The images of OWN vectors by a thread.
  template <int OWN>
  DEVICE void summarise_lanes(const Range& r, int lane, double* memory) const {
    Map* map = reinterpret_cast<Map*>(memory);
    double w[OWN][N], power[OWN];
    bool starts = false;
#pragma unroll
    for (int k = 0; k < OWN; ++k) {
      power[k] = 0.0;
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i)
        w[k][i] = i != lane + k ? zero() : ALGEBRA == PLUS_TIMES ? 1.0 : 0.0;
    }
    for (long long step = r.begin; step < r.end; ++step) {
      const bool is_first_step = is_start(r, step);
      typename Model::Step s = model.step_of(r, step);
      starts = starts || is_first_step;
#pragma unroll
      for (int k = 0; k < OWN; ++k) {
        const bool is_unit = lane + k < N;
        if (is_first_step && !is_unit) start(r, w[k]);
        s.advance(is_unit, w[k]);
        if (is_unit) rescale(w[k], power[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < OWN; ++k) store(w[k], power[k], starts, lane + k, map);
  }
  DEVICE static void store(const double (&w)[N], double power, bool starts, int lane, Map* map,
                           double growth = 0.0) {
    for (int i = 0; i < N; ++i) map->images[lane][i] = w[i];
    if (lane < N) map->power[lane] = power;
    else map->starts = starts, map->set_growth(growth);
  }

  DEVICE static void copy(const Map& from, Map& to) {
#pragma unroll UNROLL
    for (int k = 0; k < MAP; ++k)
      reinterpret_cast<double*>(&to)[k] = reinterpret_cast<const double*>(&from)[k];
  }
  // Replaces a state times 2^power by its image; the image of zero is added unless it is a unit's.
  DEVICE static void follow(const Map& from, bool is_unit, double (&w)[N], double& power) {
    // All loads of a small map at once, not each before the branch that uses it: 10^7 maps of four
    // states took 1.77 ms on an H100, and 1.92 ms before.
    Map copied;
    if (IS_SMALL) copy(from, copied);
    const Map& map = IS_SMALL ? copied : from;
    double before[N], base = -1e300;
    bool has_powers = false;
#pragma unroll UNROLL
    for (int j = 0; j < N; ++j) {
      before[j] = w[j];
      if (w[j] != 0.0 && map.power[j] > base) base = map.power[j];
      has_powers = has_powers || map.power[j] != 0.0;
    }
    // Without a unit there is no power to keep.
    if (!is_unit || ALGEBRA != PLUS_TIMES) base = 0.0;
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) w[i] = is_unit ? zero() : map.images[N][i];
    if (!map.starts) {
#pragma unroll UNROLL
      for (int j = 0; j < N; ++j) {
        // By frexp and ldexp of each product, a step from map to map took 2.6 us on an H100.
        const Factors x = has_powers ? Factors(before[j], map.power[j] - base) : Factors(before[j]);
#pragma unroll UNROLL
        for (int i = 0; i < N; ++i) w[i] = add(w[i], term(map.images[j][i], x));
      }
    }
    if (is_unit) power += base, rescale(w, power);
  }
  DEVICE static double term(double image, const Factors& x) {
    return ALGEBRA == PLUS_TIMES ? image * x.power * x.number : times(image, x.number);
  }

  DEVICE void join(const double* maps, int count, int lane, double* memory) const {
    const Map* map = reinterpret_cast<const Map*>(maps);
    const bool is_unit = lane < N;
    double w[N], power = is_unit ? map->power[lane] : 0.0;
    bool starts = map->starts;
    double growth = MEASURES && !is_unit ? growth_with(0.0, map[0]) : 0.0;
    for (int i = 0; i < N; ++i) w[i] = map->images[lane][i];
#pragma unroll 1
    for (int k = 1; k < count; ++k) {
      follow(map[k], is_unit, w, power);
      starts = starts || map[k].starts;
      if (MEASURES && !is_unit) growth = growth_with(growth, map[k]);
    }
    store(w, power, starts, lane, reinterpret_cast<Map*>(memory), growth);
  }
  DEVICE static double growth_with(double growth, const Map& map) {
    return fmax(growth, fmax(map.growth(), map.size()));
  }
  // Powers of M of crowded poles grow before they decay, and with them the rounding errors of maps.
  // Then a warp computes the states before the segments of a row one after the other: by maps that have
  // not grown, and otherwise step by step.
  DEVICE void repair(const double* levels, long long top, long long groups, double* states) const {
    constexpr double MOST = 1e3, OF_SEGMENT = 10.0;
    const long long row = blockIdx.x;
    const Map* maps = reinterpret_cast<const Map*>(levels + top) + row * groups;
    double growth = 0.0;
    for (int k = 0; k < groups; ++k) growth = growth_with(growth, maps[k]);
    if (growth <= MOST) return;
    maps = reinterpret_cast<const Map*>(levels) + row * sizes.segments;
    double* state = states + row * sizes.segments * N;
    double w[N];
    for (int i = 0; i < N; ++i) w[i] = state[i];
    for (long long k = 0; k + 1 < sizes.segments; ++k) {
      if (maps[k].size() <= OF_SEGMENT) apply(reinterpret_cast<const double*>(maps + k), w);
      else pass_over(sizes.range(row * sizes.segments + k), w);
      state += N;
      for (int i = 0; i < N; ++i) state[i] = w[i];
    }
  }
  // All lanes advance the states; each reads the operands of a step. Those of 32 steps of many complex
  // states would exceed the shared memory.
  DEVICE void pass_over(const Range& r, double (&w)[N]) const {
    constexpr int AHEAD = sizeof(typename Model::Step) <= 1024 ? 32 : 8;
    __shared__ typename Model::Step steps[AHEAD];
    __shared__ bool starts[AHEAD];
    static_assert(sizeof(steps) <= 40 << 10, "a block has 48 KB");
    const int lane = threadIdx.x;
    for (long long first = r.begin; first < r.end; first += AHEAD) {
      const int count = first + AHEAD < r.end ? AHEAD : int(r.end - first);
      if (lane < count) {
        steps[lane] = model.step_of(r, first + lane);
        starts[lane] = is_start(r, first + lane);
      }
      __syncwarp();
      for (int k = 0; k < count; ++k) {
        if (starts[k]) start(r, w);
        typename Model::Step s = steps[k];
        s.advance(false, w);
      }
      __syncwarp();
    }
  }
  DEVICE void apply(const double* memory, double* state) const {
    double w[N], power = 0.0;
    for (int i = 0; i < N; ++i) w[i] = state[i];
    follow(*reinterpret_cast<const Map*>(memory), false, w, power);
    for (int i = 0; i < N; ++i) state[i] = w[i];
  }
  DEVICE void apply_back(const double*, double*) const {}

  DEVICE void determine(const Range& r, const double* before, const double*) const {
    __shared__ Stage<WIDTH, 24> stage;  // memory for 1,024 threads of a multiprocessor
    const bool is_staged = sizes.inners == 1;
    const int steps = is_staged ? stage.STEPS : 1;
    double w[N];
#pragma unroll UNROLL
    for (int i = 0; i < N; ++i) w[i] = before[i];
    for (long long first = 0; first < sizes.length; first += steps) {
      const long long first_step = r.begin + first;
      const long long end = first_step + steps < r.end ? first_step + steps : r.end;
      const int count = first_step < end ? int(end - first_step) : 0;
#pragma unroll 1
      for (int k = 0; k < count; ++k) {
        const long long step = first_step + k, index = REVERSE ? sizes.steps - 1 - step : step;
        if (is_start(r, step)) start(r, w);
        typename Model::Step s = model.step_of(r, step);
        s.advance(false, w);
        if (is_staged) {
          double* to = stage.at(0, REVERSE ? count - 1 - k : k, WIDTH);
#pragma unroll UNROLL
          for (int i = 0; i < WIDTH; ++i) to[i] = s.result(w, i);
        } else {
          E* to = results + ((r.outer * sizes.steps + index) * sizes.inners + r.inner) * WIDTH;
#pragma unroll UNROLL
          for (int i = 0; i < WIDTH; ++i) to[i] = E(s.result(w, i));
        }
      }
      if (!is_staged) continue;
      stage.first_step[threadIdx.x] =
          r.outer * sizes.steps + (REVERSE ? sizes.steps - end : first_step);
      stage.count[threadIdx.x] = count;
      __syncwarp();
      stage.write(results, 0, WIDTH);
      __syncwarp();
    }
    if (last_states && r.begin < r.end && r.end == sizes.steps)
      for (int i = 0; i < N; ++i) last_states[(r.outer * sizes.inners + r.inner) * N + i] = w[i];
  }
};

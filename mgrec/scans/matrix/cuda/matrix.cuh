// Maps with a matrix M and a vector b of each step. M is general, a diagonal, or the first column of
// a companion matrix, which has ones above the diagonal.
#pragma once
#include "scans/matrix/cuda/affine.cuh"

struct Matrices {
  static constexpr int WIDTH = N, TERMS = IS_GENERAL ? N : 1;  // numbers of a row of M
  Operand matrices, vectors;

  // M and b of a step; registers if N is small.
  struct Step {
    static constexpr int SIZE = N * TERMS;
    double M[IS_SMALL ? SIZE : 1], b[IS_SMALL ? N : 1];
    const double *matrix, *vector;
    Step() = default;
    DEVICE Step(const double* m, const double* v) : matrix(m), vector(v) {
      if (!IS_SMALL) return;
      load<IS_SMALL ? SIZE : 1>(m, M);
      load<IS_SMALL ? N : 1>(v, b);
    }
    // A load of 16 bytes takes as long as one of 8 if neighbouring threads read distant addresses.
    template <int COUNT> DEVICE static void load(const double* from, double* to) {
      struct alignas(16) Pair { double first, second; };
#pragma unroll
      for (int k = 0; k < COUNT; k += 2) {
        if (ALIGNED && COUNT % 2 == 0) {
          const Pair pair = *reinterpret_cast<const Pair*>(from + k);
          to[k] = pair.first, to[k + 1] = pair.second;
        } else {
          to[k] = from[k];
          if (k + 1 < COUNT) to[k + 1] = from[k + 1];
        }
      }
    }
    // M ⊗ w ⊕ b, without b for a unit vector.
    DEVICE void advance(bool is_unit, double (&w)[N]) const {
      const double *m = IS_SMALL ? M : matrix, *v = IS_SMALL ? b : vector;
      double before[N];
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) before[i] = w[i];
#pragma unroll UNROLL
      for (int i = 0; i < N; ++i) {
        double sum = times(m[i * TERMS], before[IS_DIAGONAL ? i : 0]);
#pragma unroll UNROLL
        for (int j = 1; j < TERMS; ++j) sum = add(sum, times(m[i * TERMS + j], before[j]));
        if (IS_COMPANION && i + 1 < N) sum = add(sum, before[i + 1]);
        w[i] = is_unit ? sum : add(sum, v[i]);
      }
    }
    DEVICE double result(const double (&w)[N], int i) const { return w[i]; }
  };
  DEVICE Step step_of(const Range& r, long long step) const {
    return Step(matrices.at(r.outer, step, r.inner), vectors.at(r.outer, step, r.inner));
  }
};
typedef AffinePass<Matrices> Pass;

// Whole systems that are solved without pivoting, and the levels of their cyclic reduction.
//
// The symbols a, b, c and k for dl, d, du and the right-hand side, alpha and gamma are those of
// X. S. Pogorelskih and L. V. Loganova (ITNT 2019, CEUR 2416).
#pragma once
#include "tridiagonal/cuda/numbers.cuh"

constexpr Real TINY = Real(sizeof(Real) == 4 ? 0x1p-126 : 0x1p-1022);

struct Systems {
  Operand operands[4];  // dl, d, du and b
  T* result;
  T* scratch;
  // The first system without pivots; whether all operands, and those of each system, are finite.
  long long* status;
  long long outer, steps, inner;
  DEVICE long long count() const { return outer * inner; }
  DEVICE bool has_finite(long long system) const { return status[2 + system] != 0; }
  DEVICE void note_nonfinite(long long system) const { status[1] = status[2 + system] = 0; }
  DEVICE void note_singular(long long system) const {
    atomicMin((unsigned long long*)status, (unsigned long long)system);
  }
};

DEVICE inline bool is_pivot(T x) { return magnitude(x) >= TINY && is_finite(x); }
DEVICE inline T nan_of() { return T(not_a_number<Real>()); }

// The position of a system.
struct SystemIndex {
  long long number, outer, column;
  DEVICE SystemIndex(const Systems& all, long long number)
      : number(number), outer(all.inner == 1 ? number : number / all.inner),
        column(all.inner == 1 ? 0 : number - outer * all.inner) {}
  DEVICE const T* start(const Operand& operand) const {
    return operand.data + (outer * operand.outer + column * operand.inner);
  }
  DEVICE T* result(const Systems& all) const {
    return all.result + (outer * all.steps * all.inner + column);
  }
};

struct Equation { T a, b, c, k; };
// The row outside of a system: x = 0.
DEVICE inline Equation row_outside() { return {T(0), T(1), T(0), T(0)}; }

// Row i of a system; the first a and the last c are not read.
DEVICE inline Equation equation(const Systems& all, const SystemIndex& system, long long i) {
  const Operand* from = all.operands;
  return {i > 0 ? system.start(from[0])[i * from[0].step] : T(0),
          system.start(from[1])[i * from[1].step],
          i < all.steps - 1 ? system.start(from[2])[i * from[2].step] : T(0),
          system.start(from[3])[i * from[3].step]};
}
DEVICE inline bool is_finite(const Equation& row) {
  return is_finite(row.a) && is_finite(row.b) && is_finite(row.c) && is_finite(row.k);
}

// Rows a, b, c and k; `rows.at(which, i)` is number i of one of them.
template <class Rows> DEVICE inline Equation load_row(const Rows& rows, long long i) {
  return {rows.at(0, i), rows.at(1, i), rows.at(2, i), rows.at(3, i)};
}
template <class Rows> DEVICE inline void store_row(const Rows& rows, long long i, const Equation& row) {
  rows.at(0, i) = row.a;
  rows.at(1, i) = row.b;
  rows.at(2, i) = row.c;
  rows.at(3, i) = row.k;
}

// The rows of one system's level: the operands, or arrays a, b, c and k.
struct Level {
  T* data;  // row 0 of a; 0 for the operands
  long long count, step, apart;

  DEVICE T& at(int which, long long i) const { return data[which * apart + i * step]; }
  DEVICE Equation load(const Systems& all, const SystemIndex& system, long long i) const {
    if (i < 0 || i >= count) return row_outside();
    return data == nullptr ? equation(all, system, i) : load_row(*this, i);
  }
};

// Eliminate the unknowns of two other rows from a row.
DEVICE inline Equation reduced(const Equation& row, const Equation& before, const Equation& after) {
  const T alpha = row.a / before.b, gamma = row.c / after.b;
  return {T(0) - alpha * before.a,
          minus_product(minus_product(row.b, alpha, before.c), gamma, after.a),
          T(0) - gamma * after.c,
          minus_product(minus_product(row.k, alpha, before.k), gamma, after.k)};
}

// Results of filters of images in the dtype E.
#pragma once

// A constant must not be truncated to the next integer by a rounding error.
constexpr double WHOLE = 1 + 0x1p-40;

// Truncate to integers and bools, as SciPy does in C.
DEVICE inline E truncated(double x) {
  if constexpr (is_real<E>::value) return E(x);
  else if constexpr (sizeof(E) == 8 && E(-1) > E(0)) return x < 0 ? E((long long)x) : E(x);
  else return E((long long)x);
}
DEVICE inline E to_result(double x) { return truncated(is_real<E>::value ? x : x * WHOLE); }

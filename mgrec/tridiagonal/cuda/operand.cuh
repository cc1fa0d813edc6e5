// An operand as kernels of tridiagonal systems take it by value.
#pragma once

struct Operand {
  const T* data;
  long long outer, step, inner;  // strides in numbers; 0 where it is the same for all
};

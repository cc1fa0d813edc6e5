// float16, in which samples are stored. Numbers are only read.
#pragma once

struct half {
  unsigned short bits;
  DEVICE operator float() const;
};

#ifdef __CUDA_ARCH__
DEVICE inline half::operator float() const {
  float number;
  asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(number) : "h"(bits));
  return number;
}
#else
// The exponent's bias is larger by 112 in float32, where subnormal float16 numbers are normal.
DEVICE inline half::operator float() const {
  const int exponent = bits >> 10 & 31, rest = bits & 1023, sign = (bits & 0x8000) << 16;
  if (exponent == 31) return number_of(sign | 0x7f800000 | rest << 13, 0.0f);
  if (exponent) return number_of(sign | (exponent + 112) << 23 | rest << 13, 0.0f);
  return (sign ? -1.0f : 1.0f) * float(rest) * power_of_two(-24, 0.0f);
}
#endif

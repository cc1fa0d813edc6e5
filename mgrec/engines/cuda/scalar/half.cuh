// float16 and bfloat16, in which arrays are stored. Numbers are computed in float32, and rounded once.
#pragma once

struct half {
  unsigned short bits;
  half() = default;
  DEVICE half(float number);
  DEVICE operator float() const;
};

struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  DEVICE bfloat16(float number);
  DEVICE operator float() const { return number_of(int(bits) << 16, 0.0f); }
};

#ifdef __CUDA_ARCH__
DEVICE inline half::operator float() const {
  float number;
  asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(number) : "h"(bits));
  return number;
}
DEVICE inline half::half(float number) {
  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(bits) : "f"(number));
}
#else
// The exponent's bias is larger by 112 in float32, where subnormal float16 numbers are normal.
DEVICE inline half::operator float() const {
  const int exponent = bits >> 10 & 31, rest = bits & 1023, sign = (bits & 0x8000) << 16;
  if (exponent == 31) return number_of(sign | 0x7f800000 | rest << 13, 0.0f);
  if (exponent) return number_of(sign | (exponent + 112) << 23 | rest << 13, 0.0f);
  return (sign ? -1.0f : 1.0f) * float(rest) * power_of_two(-24, 0.0f);
}
DEVICE inline half::half(float number) {
  const int size = bits_of(number) & 0x7fffffff, odd = size >> 13 & 1;
  int rounded = (size + 0xfff + odd >> 13) - (112 << 10);
  if (size < 113 << 23) rounded = int(rint(fabs(number) * power_of_two(24, 0.0f)));
  if (rounded > 31 << 10) rounded = 31 << 10;
  if (number != number) rounded = 0x7e00;
  bits = rounded | (bits_of(number) >> 16 & 0x8000);
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
DEVICE inline bfloat16::bfloat16(float number) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(number));
}
#else
DEVICE inline bfloat16::bfloat16(float number) {
  const unsigned whole = bits_of(number);
  bits = number != number ? 0x7fc0 : whole + 0x7fff + (whole >> 16 & 1) >> 16;
}
#endif

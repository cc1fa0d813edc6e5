// Sines and cosines of doubles within 2^-30 of themselves, for numbers that end as floats.
//
// CUDA's own take 50 double operations, read a table and branch, so that no other work of a thread
// hides their latency. The argument is reduced exactly here as well (Cody and Waite, 1980), and the
// first terms of the series are doubles; float suffices for the rest, which is below 2^-11.
#pragma once

// Sets `odd` where the argument is too large to be reduced so, or no number.
DEVICE inline double quick_wave(bool& odd, double x, int quarters) {
  odd = odd | ((top_bits_of(x) & 0x7fffffff) >= 0x41d00000);  // 2^30
  const double shifted = fma(x, 0x1.45f306dc9c883p-1, 0x1.8p52), turns = shifted - 0x1.8p52;
  const int quarter = low_bits_of(shifted) + quarters;
  double r = fma(turns, -0x1.921fb54442d18p+0, x);
  r = fma(turns, -0x1.1a62633145c07p-54, r);
  r = fma(turns, 0x1.f1976b7ed8fbcp-110, r);
  // sin r = r - r·q/6 + r·q²/120 - ..., cos r = 1 - q/2 + q²/24 - ..., of q = r².
  const bool is_cosine = quarter & 1;
  const double q = r * r, first = is_cosine ? 1.0 : r;
  const double second = is_cosine ? -1.0 / 2 : -1.0 / 6, third = is_cosine ? 1.0 / 24 : 1.0 / 120;
  const float z = float(q), power = float(first) * (z * z * z);
  const float sine = fmaf(fmaf(z, -0x1.ae6456p-26f, 0x1.71de3ap-19f), z, -0x1.a01a02p-13f);
  const float cosine = fmaf(fmaf(z, -0x1.27e4fcp-22f, 0x1.a01a02p-16f), z, -0x1.6c16c2p-10f);
  const double rest = double(power * (is_cosine ? cosine : sine));
  const double wave = fma(first * q, fma(q, third, second), first) + rest;
  return quarter & 2 ? -wave : wave;
}
DEVICE inline double quick_sin(bool& odd, double x) { return quick_wave(odd, x, 0); }
DEVICE inline double quick_cos(bool& odd, double x) { return quick_wave(odd, x, 1); }
// Of a float's own CUDA's are short.
DEVICE inline float quick_sin(bool&, float x) { return sin(x); }
DEVICE inline float quick_cos(bool&, float x) { return cos(x); }

// Sines and cosines of doubles within 2^-30 of themselves, for numbers that end as floats.
//
// CUDA's own take 50 double operations, read a table and branch, so that no other work of a thread
// hides their latency. The argument is reduced exactly here as well (Cody and Waite, 1980), by half
// turns: one polynomial serves both and nothing is chosen. All are doubles: quarter turns with the
// last terms as floats took 3 more conversions, each as long as 4 double operations, and
// 0.5 + 0.4·sin(0.001·i) ran at 0.56 of the floor, not at 0.64.
#pragma once

// sin(x) for whole `quarters` of 0, cos(x) for 1. Sets `odd` where the argument is too large to be
// reduced so, or no number.
DEVICE inline double quick_wave(bool& odd, double x, int quarters) {
  odd = odd | ((top_bits_of(x) & 0x7fffffff) >= 0x41d00000);  // 2^30
  double shifted = fma(x, 0x1.45f306dc9c883p-2, 0x1.8p52), turns = shifted - 0x1.8p52;
  if (quarters) {  // zeros lie between whole half turns
    shifted = fma(x, 0x1.45f306dc9c883p-2, -0.5) + 0x1.8p52;
    turns = shifted - 0x1.8p52 + 0.5;
  }
  double r = fma(turns, -0x1.921fb54442d18p+1, x);
  r = fma(turns, -0x1.1a62633145c07p-53, r);
  r = fma(turns, 0x1.f1976b7ed8fbcp-109, r);
  // sin r = r·(1 - q/6 + q²/120 - ...) of q = r², |r| <= π/2: its minimax polynomial of degree 5, which
  // is within 2^-35.
  const double q = r * r;
  double series = fma(-0x1.9a0e18fe79cd0p-26, q, 0x1.716ba4fc49a5fp-19);
  series = fma(series, q, -0x1.a017a8fe0379dp-13);
  series = fma(series, q, 0x1.11110b74ad719p-7);
  series = fma(series, q, -0x1.55555541759e3p-3);
  series = fma(series, q, 0x1.ffffffffd17d0p-1);
  return negated_if(r * series, low_bits_of(shifted) + quarters);
}
DEVICE inline double quick_sin(bool& odd, double x) { return quick_wave(odd, x, 0); }
DEVICE inline double quick_cos(bool& odd, double x) { return quick_wave(odd, x, 1); }
// Of a float's own CUDA's are short.
DEVICE inline float quick_sin(bool&, float x) { return sin(x); }
DEVICE inline float quick_cos(bool&, float x) { return cos(x); }

// The outcome of a speculation on w = s·w + t, which determines a chunk from a state of 0.
#pragma once

struct Told {
  double steps;        // of the prefix, after which no carry-in has an effect; 0 if not contractive
  double growth;       // log2 of the largest product of their first coefficients
  unsigned is_turned;  // whether an odd number of all coefficients is negative
  unsigned has_zero;   // whether one of them is 0
};

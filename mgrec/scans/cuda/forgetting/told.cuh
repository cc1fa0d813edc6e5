// What a chunk of w = s·w + t tells that is determined from a state of 0.
#pragma once

struct Told {
  double steps;        // of its head, which leave nothing of any state; 0: it does not forget
  double growth;       // log2 of the largest product of their first coefficients
  unsigned is_turned;  // an odd number of all coefficients is negative
  unsigned has_zero;   // one of them is 0
};

"""How weights that could underflow are kept: as their logarithms.

Weights are probabilities, and their logarithms below LOG_TINY are negative: one array holds both.
Zero is the weight of a state that cannot be reached.
"""

import math

TINY = 1e-290
"""A smaller weight is replaced by its logarithm."""
LOG_TINY = math.log(TINY)
LOW = 1e-250
"""Sums of at least this size are not changed by weights below TINY."""
HIDDEN = 45.0
"""128 terms whose logarithms are smaller by more do not change a sum in float64."""
BEFORE_FIRST = -1.0
"""First weight of a column before the first step of a sequence; no weight is this logarithm."""

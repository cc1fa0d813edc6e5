"""What the paper prints.

A. Wakatani, "Evaluation of P-Scheme/G algorithm for solving recurrence equations", International
Journal of Modeling and Optimization 3 (2013). Its figures 5 to 7 have no numbers in their text but
those that the text names.
"""

from __future__ import annotations

FEW_STEPS, STEPS = 2**18, 2**20
# Equation 6: alpha : beta : gamma.
CONSTANTS = {"L": (1.6, 1.0, 1.1), "M": (20.0, 1.0, 1.1), "H": (91.7, 1.0, 1.1)}
# P_opt for N = 10^6, and P of the best speedup.
OPTIMA = {"L": (1643, 2048), "M": (4594, 4096), "H": (9633, 8192)}
SPEEDUPS = {"L": 7.1, "M": 183.0, "H": 370.0}
# Table I: milliseconds without and with shared memory, by N.
REARRANGEMENT = {256_000: (0.33, 0.11), 1_000_000: (0.751, 0.376)}
# Figure 4, N = 256K, G = 32: T of the best speedup, it without and with rearrangement.
FIGURE_4 = {"M": (128, 63.68, 92.91), "H": (64, 189.87, 233.58)}
MULTIPROCESSORS = 16

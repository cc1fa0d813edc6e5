"""What the paper prints.

A. Wakatani, "Implementation and evaluation of recurrence equation solvers on GPGPU systems using
rearrangement of array configurations", Future Computing 2012. Figure 7's labels are given to the
bars in the order in which the text says that each series rises or falls; the other figures have no
numbers but those that the text names.
"""

from __future__ import annotations

P_SCHEME, PCR = "P-scheme/G", "PCR"
SMALL, LARGE = 2**18, 2**20
BLOCKS, THREADS = 32, (16, 32, 64, 128, 256, 512)
# Milliseconds of N = 2^18 with G = 4, by T: with rearrangement and without it.
PRECOMPUTE = {16: (2.07, 2.69), 32: (1.07, 1.92), 64: (0.59, 1.18), 128: (0.34, 0.9)}
PROPAGATE = {16: 0.25, 32: 0.38, 64: 0.69, 128: 1.21}
# Figure 8: T of the greatest speedup by G; equation 18 predicts P_opt = sqrt(N/2).
BEST_THREADS = {
    LARGE: {4: 256, 8: 128, 16: 64, 32: 32},
    SMALL: {4: 256, 8: 64, 16: 32, 32: 16},
}
# Figure 7: speedups over a CPU by steps and threads of a block, with 32 blocks.
SPEEDUPS = {
    SMALL: {
        P_SCHEME: (1.935, 1.69, 1.245, 0.74, 0.382, 0.197),
        PCR: (0.24, 0.45, 0.79, 1.20, 1.31, 1.32),
    },
    LARGE: {
        P_SCHEME: (3.13, 4.48, 4.176, 2.658, 1.568, 0.79),
        PCR: (0.20, 0.37, 0.67, 1.10, 1.19, 1.25),
    },
}

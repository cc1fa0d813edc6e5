"""Alignment scores of a tile, along antidiagonals that stay in registers.

ROWS rows a lane of a register make a strip. Lane r is r columns behind the first one, so that
what is above its first row lies in the lane before, one step ago (Wozniak 1997). H never
reaches memory, but for the strip's last row, which is the one above the next strip.

Nanoseconds a cell, of random sequences of 5,000 to 10,000 letters on one core of an EPYC (Zen 4):

                             float64   int64   int32   int16    int8
    linear gaps                 0.35    0.32    0.13   0.069   0.037
    affine gaps                 0.43    0.38    0.16   0.084   0.046
    affine gaps, a matrix                       0.19   0.101   0.063

One row a lane in four registers, of which each must be shifted, took 0.36, 0.33 and 0.17 with
linear gaps. Other loops, beside that one on another machine, in float64, int64 and int32:

    a loop over rows                              1.7     4.9     5.3
    rows without their gaps, then a scan          1.0     3.3     3.1
    antidiagonals in memory, vectorised by LLVM   0.5     0.5    0.25
    one row a lane                               0.21    0.19    0.09

The loop in integers is slow since its branches are mispredicted: where all letters are equal
it took 0.9. The scan for horizontal gaps (Hou, Wang, Feng 2018) also rounds floating-point
scores differently from the recurrence.
"""

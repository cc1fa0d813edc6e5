"""Alignment scores of a tile, along antidiagonals that stay in registers.

ROWS rows a lane of a register make a strip. Lane r is r columns behind the first one, so that
what is above its first row lies in the lane before, one step ago (Wozniak 1997). H never
reaches memory, but for the strip's last row, which is the one above the next strip.

Before, with one row a lane in four registers, and other loops; nanoseconds a cell, of random
sequences of 4,096 letters with linear gaps, on one core with AVX-512:

                                                   float64   int64   int32
    a loop over rows                                   1.7     4.9     5.3
    rows without their gaps, then a scan               1.0     3.3     3.1
    antidiagonals in memory, vectorised by LLVM        0.5     0.5    0.25
    one row a lane                                    0.21    0.19    0.09

The loop in integers is slow since its branches are mispredicted: where all letters are equal
it took 0.9. The scan for horizontal gaps (Hou, Wang, Feng 2018) also rounds floating-point
scores differently from the recurrence.
"""

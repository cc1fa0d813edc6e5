"""Tridiagonal systems: each chunk is reduced to the rows of its two ends."""

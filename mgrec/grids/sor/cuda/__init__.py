"""Successive over-relaxation on a GPU: many rows and sweeps at once, in the order of the loop."""

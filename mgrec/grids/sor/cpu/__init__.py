"""Successive over-relaxation on a CPU: many rows and sweeps at once, in the order of the loop."""

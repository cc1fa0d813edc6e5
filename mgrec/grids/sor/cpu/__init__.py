"""Successive over-relaxation on a CPU: many rows and many sweeps at once, in the loop's order."""

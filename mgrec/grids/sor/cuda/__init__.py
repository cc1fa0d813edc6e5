"""Successive over-relaxation on one GPU: many rows and several sweeps at once, in order."""

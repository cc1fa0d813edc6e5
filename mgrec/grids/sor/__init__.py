"""Successive over-relaxation of grids, red-black and by hyperplanes."""

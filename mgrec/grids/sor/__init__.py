"""Successive over-relaxation of grids."""

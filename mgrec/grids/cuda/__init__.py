"""Loops over grids on one GPU: summed-area tables."""

"""Transposed copies and messages between blocks, for all recurrences over grids on a GPU."""

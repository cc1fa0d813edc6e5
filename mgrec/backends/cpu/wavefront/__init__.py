"""Kernels of recurrences over a grid, and their phase on a CPU."""

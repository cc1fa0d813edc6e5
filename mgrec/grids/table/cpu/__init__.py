"""Kernels of summed-area tables on a CPU."""

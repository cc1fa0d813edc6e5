"""Kernels of tridiagonal systems, and their phases on a CPU."""

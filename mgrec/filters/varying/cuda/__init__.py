"""Kernels for CuPy arrays."""

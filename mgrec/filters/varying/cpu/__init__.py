"""Kernels for NumPy arrays."""

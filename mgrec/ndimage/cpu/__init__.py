"""Kernels over rows of arrays in host memory."""

"""Kernels over lines of arrays in host memory."""

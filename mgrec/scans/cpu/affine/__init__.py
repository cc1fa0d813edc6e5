"""Kernels of w = s·w + t."""

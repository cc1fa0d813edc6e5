"""SIMD registers in numba."""

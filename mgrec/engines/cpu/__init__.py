"""The CPU: compilation of kernels by numba, SIMD, and threads."""

"""Functions and kernels compiled with numba, and kept on disk."""

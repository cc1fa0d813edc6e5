"""CUDA kernels over rows of CuPy arrays."""

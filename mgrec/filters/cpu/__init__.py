"""Kernels of filters, and their phases on a CPU."""

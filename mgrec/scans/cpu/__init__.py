"""Kernels for any transfer map, and the phases of all of them on a CPU."""

"""Kernels of recurrences whose maps have many numbers."""

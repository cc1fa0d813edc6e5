"""The CPU: numba kernels, one thread a call, or all of a process."""

from .transfer.phases import determine, determine_columns, precompute, propagate

__all__ = ["determine", "determine_columns", "precompute", "propagate"]

"""The CPU: numba kernels, one thread a call; threads are placement's business."""

from .transfer.phases import determine, determine_columns, precompute, propagate

__all__ = ["determine", "determine_columns", "precompute", "propagate"]

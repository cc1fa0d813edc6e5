"""Recurrences on one GPU: the traced algebra, its kernels and their compilation."""

from .determine import determine
from .precompute import precompute

__all__ = ["determine", "precompute"]

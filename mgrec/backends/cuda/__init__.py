"""Recurrences on one GPU: the traced algebra, its kernels and their compilation."""

from .transfer.phases import determine_by, device_of, empty, precompute

__all__ = ["determine_by", "device_of", "empty", "precompute"]

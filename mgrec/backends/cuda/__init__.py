"""Recurrences on one GPU: the traced algebra, its kernels and their compilation."""

from .device.arrays import fetch
from .transfer.phases import device_of, empty

__all__ = ["device_of", "empty", "fetch"]

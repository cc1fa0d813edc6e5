"""One GPU: tracing of Python functions, compilation and launches of kernels."""

from .device import device_of, empty, fetch

__all__ = ["device_of", "empty", "fetch"]

"""One GPU: tracing of Python functions, compilation and launches of kernels."""

"""Tridiagonal systems on a GPU: partitions in shared memory, one a thread."""

"""Engines: one folder for each backend, which compiles and launches the kernels of families."""

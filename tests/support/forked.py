"""What the process imports, and does once, of which workers of tests are forks."""

import numba
import zarr  # noqa: F401

import mgrec.cli.solve
import mgrec.dask
import mgrec.signal  # noqa: F401

numba.njit(lambda: 0)()

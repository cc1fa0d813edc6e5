"""Arrays in native byte order, aligned and of no subclass, as compiled kernels require."""

from __future__ import annotations

from typing import Any

import numpy as np

from .kinds import is_lazy, is_on_gpu


def as_native(array: Any) -> Any:
    """Return the array, or an aligned copy in native byte order.

    numba distinguishes arrays inside of tuples only by the number of their dtype, and other arrays
    too after it has compiled for a subclass or an unaligned array: it would run code for native
    arrays on the bytes of others. A Dask array's chunks are converted, except for their alignment,
    which :class:`mgrec.core.contract.recurrence.ChunkInputs` ensures.

    Examples
    --------
    >>> as_native(np.array([1, 2], ">i4")).dtype.isnative
    True
    """
    if type(array) is np.ndarray:
        dtype = array.dtype
        if dtype.isnative and array.flags.aligned:
            return array
        return array.astype(dtype.newbyteorder("="))
    if isinstance(array, np.ndarray) and not is_on_gpu(array):
        return as_native(np.asarray(array))
    if is_lazy(array) and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array

"""Arrays of the same values that lie otherwise in memory."""

import numpy as np


def swapped(array):
    return array.astype(array.dtype.newbyteorder())


def unaligned(array):
    view = np.ndarray(array.shape, array.dtype, np.zeros(array.nbytes + 1, np.uint8), 1)
    view[...] = array
    return view


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array):
    """Every third number along the last axis; of CuPy arrays, too, like those below."""
    return array.repeat(3, axis=-1)[..., ::3]


def apart(array):
    """Every third part along the first axis."""
    return array.repeat(3, axis=0)[::3]


def backwards(array):
    index = (slice(None, None, -1),) * array.ndim
    return array[index].copy()[index]

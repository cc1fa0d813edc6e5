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

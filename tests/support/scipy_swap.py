"""A pytest plugin: SciPy's own tests call mgrec's filters in place of SciPy's.

Usage: ``pytest -p scipy_swap --pyargs scipy.signal.tests.test_signaltools``. With the environment
variable MGREC_SWAP=dask the data go in as a Dask array, cut along every axis, and are computed.
"""

import functools
import os

import dask.array as da
import numpy as np
import pytest
import scipy.signal

import mgrec.signal

NAMES = mgrec.signal.__all__
CHUNKS = 5


def swapped(name):
    """The function of mgrec, through Dask if the environment says so; it counts its calls."""
    function = getattr(mgrec.signal, name)
    if os.environ.get("MGREC_SWAP") != "dask" or name in ("lfilter_zi", "sosfilt_zi", "lfiltic"):
        return function
    number = 1 if name.startswith("sos") else 2  # where the data stand

    @functools.wraps(function)
    def through_dask(*arguments, **options):
        if "gust" in (options.get("method"), *(a for a in arguments if isinstance(a, str))):
            return function(*arguments, **options)
        data = np.asarray(arguments[number])
        if data.ndim:
            data = da.from_array(data, chunks=tuple(-(-n // CHUNKS) or 1 for n in data.shape))
        results = function(*arguments[:number], data, *arguments[number + 1 :], **options)
        computed = tuple(
            part.compute(scheduler="sync") if isinstance(part, da.Array) else part
            for part in (results if isinstance(results, tuple) else (results,))
        )
        return computed if isinstance(results, tuple) else computed[0]

    return through_dask


@pytest.fixture(autouse=True)
def _mgrec(request, monkeypatch):
    for name in NAMES:
        if hasattr(scipy.signal, name):
            for module in (scipy.signal, request.module):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, swapped(name))

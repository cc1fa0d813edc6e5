"""Methods of xarray: ``import mgrec.xarray`` gives every DataArray and Dataset ``.mgrec``.

A dimension is named, never counted. Coefficients are numbers, DataArrays, or names of coordinates
(of a Dataset: of variables, too). They are aligned exactly and broadcast by their dimensions, which
costs no memory: an `s` of (y, x) goes with data of (time, y, x). Results have the dimensions of the
data in their order, and their coordinates, attributes, name and chunks: what is lazy stays lazy.

Examples
--------
>>> import numpy as np, xarray as xr, mgrec.xarray
>>> rain = xr.DataArray(
...     [[8.0, 0.0, 2.0], [4.0, 4.0, 0.0]], {"place": ["Oslo", "Rome"]}, ("place", "day")
... )
>>> kept = xr.DataArray([0.5, 0.25], {"place": ["Oslo", "Rome"]}, "place")
>>> rain.mgrec.linear_recurrence(kept, dim="day").values
array([[8.  , 4.  , 4.  ],
       [4.  , 5.  , 1.25]])
>>> weather = xr.Dataset({"rain": rain, "kept": kept})
>>> weather.mgrec.linear_recurrence("kept", "rain", dim="day").sel(place="Rome").values
array([4.  , 5.  , 1.25])

*A core dimension in several chunks.* :func:`xarray.apply_ufunc` with ``dask="parallelized"`` wants
it in one. mgrec's functions take Dask arrays as they are, so ``dask="allowed"`` hands them over, in
any chunks, and nothing is rechunked:

>>> lazy = rain.chunk(day=1)
>>> wet = xr.apply_ufunc(
...     mgrec.linear_recurrence, 0.5, lazy,
...     input_core_dims=[[], ["day"]], output_core_dims=[["day"]], dask="allowed",
... )
>>> wet.chunks
((2,), (1, 1, 1))
"""

from .arrays import DataArrayMethods
from .datasets import DatasetMethods

__all__ = ["DataArrayMethods", "DatasetMethods"]

"""Methods of xarray: ``import mgrec.xarray`` gives every DataArray and Dataset ``.mgrec``.

The public functions take DataArrays themselves, but count axes. Methods name a dimension, `dim`,
and take operands as numbers, DataArrays, or names of coordinates (of a Dataset: of variables, too);
so `initial`, `other`, `times`, `reset` and `zi`. DataArrays are aligned exactly and broadcast by
their dimensions, which costs no memory: an `s` of (y, x) goes with data of (time, y, x). Results
have the dimensions of the data in their order, and their coordinates, name and chunks: lazy data
stay lazy. They have the attributes of the data, unless ``xarray.set_options(keep_attrs=False)``.

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

Weights that halve in two days, by the coordinate of the dimension:

>>> days = np.array(["2026-03-01", "2026-03-02", "2026-03-05"], "M8[ns]")
>>> dated = rain.assign_coords(day=days)
>>> dated.mgrec.ewm(dim="day", times="day", halflife="2D").sel(place="Rome").values.round(2)
array([4.  , 4.  , 1.51])

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

from .accessors import DataArrayMethods, DatasetMethods

__all__ = ["DataArrayMethods", "DatasetMethods"]

"""Methods for xarray: ``import mgrec.xarray`` adds ``.mgrec`` to each DataArray and Dataset.

Public functions take DataArrays too, but count axes. Methods take the name of a dimension, `dim`.
Operands, and `initial`, `other`, `times`, `reset` and `zi`, are numbers, DataArrays or names of
coordinates (for a Dataset, also of variables). DataArrays are aligned exactly and broadcast by
their dimensions, which costs no memory: an `s` of (y, x) broadcasts against data of (time, y, x).

Results have the dimensions of the data in their order, and the coordinates, the name and the chunks
of the data. Lazy data stay lazy. Results also have the attributes of the data, unless
``xarray.set_options(keep_attrs=False)`` is set. :ref:`guide-xarray` has more examples, among them
:func:`xarray.apply_ufunc`.

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
"""

from .accessors import DataArrayMethods, DatasetMethods

__all__ = ["DataArrayMethods", "DatasetMethods"]

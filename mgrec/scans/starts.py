"""Masks of concatenated sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy, is_on_gpu
from ..core.arrays.interop import to_native
from ..core.arrays.validation import as_any_array, as_flag


def starts(lengths: Any = None, *, offsets: Any = None, reverse: bool = False) -> Any:
    """Return a mask of the first step of each sequence in an array of concatenated sequences.

    Pass the mask as ``reset`` to a recurrence or a filter.

    Parameters
    ----------
    lengths : array_like or CuPy array
        Lengths of the sequences, 1-d: integers of at least 0. A sequence of length 0 has no step.
    offsets : array_like or CuPy array, optional
        Alternative to `lengths`: the start of each sequence, the first one at 0, and the end of the
        last, as in Arrow, awkward and nested tensors of torch.
    reverse : bool, optional
        If True, mark the last step of each sequence, at which a reverse recurrence starts.

    Returns
    -------
    array of bool
        Mask over all sequences; a CuPy array if `lengths` or `offsets` is one.

    Raises
    ------
    TypeError
        If the values are not integers, the array is lazy, or both or none of the two are given.
    ValueError
        If the array is not 1-d, a length is negative, or `offsets` do not start with 0.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> mgrec.starts([2, 0, 3])
    array([ True, False,  True, False, False])

    Discounted returns of three episodes, G_i = r_i + 0.5·G_{i+1} up to the end of each episode:

    >>> rewards, lengths = np.ones(6), [1, 2, 3]
    >>> last = mgrec.starts(lengths, reverse=True)
    >>> mgrec.linear_recurrence(0.5, rewards, reverse=True, reset=last)
    array([1.  , 1.5 , 1.  , 1.75, 1.5 , 1.  ])

    For generalised advantage estimates, replace the rewards by the temporal differences and the
    coefficient by the discount times λ.
    """
    reverse = as_flag("reverse", reverse)
    if (lengths is None) == (offsets is None):
        raise TypeError("one of lengths and offsets must be given; got both or none")
    if offsets is None:
        lengths = _integers("lengths", lengths)
        ends = lengths.cumsum()
        first_steps = ends - lengths
    else:
        offsets = _integers("offsets", offsets)
        first_steps, ends = offsets[:-1], offsets[1:]
        if offsets.size == 0 or offsets[0] != 0:
            raise ValueError(f"offsets must begin with 0; got {offsets[:1]}")
    if (ends < first_steps).any():
        name = "lengths must be 0 or more" if offsets is None else "offsets must not fall"
        raise ValueError(f"{name}; got {int((ends - first_steps).min())} between two")
    marks = np.zeros_like(ends, dtype=bool, shape=int(ends[-1]) if ends.size else 0)
    marks[(ends - 1 if reverse else first_steps)[ends > first_steps]] = True
    return marks


def _integers(name: str, values: Any) -> Any:
    values = to_native(name, values)
    if is_lazy(values):
        raise TypeError(f"{name} must be in memory; got a Dask array: compute it first")
    array = values if is_on_gpu(values) else as_any_array(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-d; got {array.ndim} axes")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers; got {array.dtype}")
    return array.astype(np.int64)

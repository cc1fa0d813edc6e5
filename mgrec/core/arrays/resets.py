"""Marks along an axis, or labels of segments, at which a state is reset."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from ..algebra.fingerprint import stacklevel_of_caller
from ..backends import CPU, backend_of
from .array_types import Named, in_one_memory, is_lazy
from .chunk import has_unknown_sizes
from .interop import require_native, to_native
from .validation import as_any_array, as_flag, broadcasts_to

_LABELS = "iuSUTMm"
_COMPARED = 4096
"""Number of segments whose labels are compared to find recurring ones."""


def as_reset(reset: Any, shape: tuple[Any, ...], axis: int, reverse: bool, data: Named = ()) -> Any:
    """Return the marks of the steps at which the state is reset, as uint8, in the data's memory.

    `shape`, tuple of int or nan: shape of the result, to which the marks are broadcast.

    The marks have as many axes as `shape`.
    """
    reset = with_all_axes(as_labels(reset), shape, axis)
    if reset.dtype.kind == "b":
        marks = reset
    else:
        marks = changes_of(reset, axis, reverse)
        is_in_memory = not is_lazy(reset) and backend_of(reset) is CPU
        if is_in_memory and 0 < reset.size == reset.shape[axis]:
            _warn_of_recurring(reset.reshape(-1), marks.reshape(-1), reverse)
    marks = marks.astype(np.uint8) if is_lazy(marks) else marks.view(np.uint8)
    return in_one_memory(data, [("reset", marks)])[0]


def as_labels(reset: Any) -> Any:
    """Return a mask or labels as an array whose elements can be compared."""
    is_index = hasattr(type(reset), "factorize")
    reset = _codes(reset) if is_index else as_any_array("reset", reset)
    if reset.dtype.kind == "O":
        return reset.map_blocks(_as_text, dtype="U1") if is_lazy(reset) else _as_text(reset)
    if reset.dtype.kind not in f"b{_LABELS}":
        raise _not_labels(reset.dtype)
    return reset


def _codes(labels: Any) -> Any:
    """Return the labels of an index, a categorical or an array of pandas; numbers unchanged."""
    require_native("reset", labels)
    return np.asarray(labels) if labels.dtype.kind in "biuf" else labels.factorize()[0]


def _as_text(labels: np.ndarray) -> np.ndarray:
    """Convert objects that are strings to NumPy's strings."""
    if not all(isinstance(label, str) for label in labels.flat):
        types = sorted({type(label).__name__ for label in labels.flat})
        raise _not_labels(f"{labels.dtype} of {', '.join(types)}")
    return labels.astype(np.str_)


def _not_labels(got: object) -> TypeError:
    return TypeError(
        f"reset must be a mask of bool, or labels that are integers, strings, dates or categories; got {got}"
    )


def _warn_of_recurring(labels: np.ndarray, changes: np.ndarray, reverse: bool) -> None:
    """Warn if a label occurs again after another one."""
    starts = np.append(0, np.flatnonzero(changes)[: _COMPARED - 1] + int(reverse))
    order = np.argsort(labels[starts], kind="stable")
    ordered = labels[starts[order]]
    recurring = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(recurring):
        first = recurring[np.argmin(order[recurring + 1])]
        earlier, later = starts[order[first : first + 2]]
        warnings.warn(
            f"reset has the label of step {earlier} again at step {later}, after other labels: the "
            f"state is reset at each change, so that interleaved groups are not solved as groups. "
            f"Sort by label, or call pandas' groupby(...).transform. Pass a mask of bool if each "
            f"change is intended",
            stacklevel=stacklevel_of_caller(),
        )


def with_all_axes(reset: Any, shape: tuple[Any, ...], axis: int) -> Any:
    """Return the array with all axes; a single axis is that of the recurrence."""
    ndim = len(shape)
    missing = [None] * (ndim - reset.ndim)
    if reset.ndim == 1:
        index = [None] * ndim
        index[axis] = slice(None)  # type: ignore[call-overload]
        full = reset[tuple(index)]
    else:
        full = reset[(*missing, ...)]
    is_one_of_many = reset.ndim == 1 and reset.shape[0] == 1 and shape[axis] != 1
    if is_one_of_many or not (0 < reset.ndim <= ndim and broadcasts_to(full.shape, shape)):
        raise ValueError(
            f"reset must have shape ({shape[axis]},), the steps along axis {axis} and the sum of "
            f"lengths, or one that broadcasts to {shape}; got {reset.shape}"
        )
    return full


def changes_of(labels: Any, axis: int, reverse: bool) -> Any:
    """Return whether each label differs from that of the previous step."""
    if labels.shape[axis] == 1:
        return np.zeros_like(labels, dtype=bool)
    all_but_last, all_but_first = (
        tuple(part if k == axis else slice(None) for k in range(labels.ndim))
        for part in (slice(0, -1), slice(1, None))
    )
    if not is_lazy(labels):
        changes = np.zeros_like(labels, dtype=bool)
        changes[all_but_last if reverse else all_but_first] = labels[all_but_last] != labels[all_but_first]
        return changes
    if has_unknown_sizes(labels.chunks):
        raise ValueError(
            "reset must be a mask where sizes of chunks are unknown, or call "
            "compute_chunk_sizes() first, of a column of Dask to_dask_array(lengths=True); got "
            "labels"
        )
    first = labels[tuple(slice(0, 1) if k == axis else s for k, s in enumerate(all_but_last))]
    same, changed = (first == first) & False, labels[all_but_last] != labels[all_but_first]
    # NumPy's function would dispatch to dask.array's, and to expressions if query planning is on.
    concatenate = vars(sys.modules[type(labels).__module__])["concatenate"]
    both = concatenate([changed, same] if reverse else [same, changed], axis=axis)
    return both.rechunk(labels.chunks)


def replace_lengths(options: dict[str, Any]) -> None:
    """Replace `lengths` of sequences by a mask as `reset`, in place."""
    lengths = options.pop("lengths")
    if lengths is None:
        return
    if options.get("reset") is not None:
        raise TypeError("one of reset and lengths must be given; got both")
    options["reset"] = starts(lengths, reverse=options.get("reverse", False))


def starts(lengths: Any = None, *, offsets: Any = None, reverse: bool = False) -> Any:
    """Return a mask of the first step of each sequence in an array of concatenated sequences.

    Pass the mask as ``reset`` to a recurrence or a filter. Lengths may also be passed alone, as
    ``lengths``.

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
    marks = backend_of(ends).from_host(np.zeros(int(ends[-1]) if ends.size else 0, bool), ends)
    marks[(ends - 1 if reverse else first_steps)[ends > first_steps]] = True
    return marks


def _integers(name: str, values: Any) -> Any:
    values = to_native(name, values)
    if is_lazy(values):
        raise TypeError(f"{name} must be in memory; got a Dask array: compute it first")
    array = as_any_array(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-d; got {array.ndim} axes")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers; got {array.dtype}")
    return array.astype(np.int64)

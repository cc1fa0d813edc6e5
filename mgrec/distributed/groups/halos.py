"""The program of a filter whose parts take samples of their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.backends import backend_of
from ...core.contract.recurrence import filter_chunk
from .calls import GroupCall


def filter_part(call: GroupCall, axis_filter: Any, x: Any, axis: int, dtype: np.dtype[Any]) -> Any:
    """Return the results of a filter along an axis for the part of this rank.

    Parameters
    ----------
    axis_filter : object
        Its methods are those of ``mgrec.ndimage.axes.AxisFilter``.
    x : array
        Samples of this rank.
    dtype : numpy.dtype
        Dtype of the results.
    """
    options = {
        "axis": axis,
        "the dtype of the signal": x.dtype.name,
        "the shape of the signal without the axis": (*x.shape[:axis], *x.shape[axis + 1 :]),
        "the dtype of the result": dtype.name,
        "the filter": type(axis_filter).__name__,
    }
    lengths = call.all_gather("the lengths", options, x.shape[axis], is_last=False)
    # A filter plans for parts that have samples.
    ranks = [rank for rank, length in enumerate(lengths) if length]
    plans = [
        axis_filter.plan([lengths[rank] for rank in ranks], number) for number in range(len(ranks))
    ]
    backend, this = backend_of(x), call.group.rank
    sent = {}
    with backend.device_of((x,)):
        for needed, _ in plans:
            for number, part in needed:
                if ranks[number] == this and part not in sent:
                    sent[part] = to_host(axis_filter.part(x, axis, part))
        received = call.all_gather("samples of neighbours", {}, sent)
        if this not in ranks:
            return backend.empty(x.shape, dtype)
        needed, recipe = plans[ranks.index(this)]
        parts = [backend.from_host(received[ranks[number]][part], x) for number, part in needed]
        return filter_chunk(axis_filter, x, axis, dtype, recipe, parts)

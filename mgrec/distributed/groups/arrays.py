"""Arrays that ranks send each other: a message with their forms, then their bytes in one exchange.

After the message all ranks take part in the exchange. So an error before it is sent to all, and
arrays on GPUs need no wait of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import prod
from typing import Any

import numpy as np

from ...core.backends import backend_of
from .calls import GroupCall

Form = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype of an array."""
ALIGNMENT = 256
"""Bytes of which the start of each array in a message is a multiple."""


def send_arrays(
    call: GroupCall, stage: str, options: Mapping[str, Any], sent: Mapping[int, Sequence[Any]], like: Any
) -> dict[int, list[Any]]:
    """Return the arrays that other ranks send to this one, by ranks, in the memory of `like`.

    The call sends no further messages. If only neighbours need arrays, no other rank gets them.

    `stage`, `options`: see :meth:`.GroupCall.all_gather`.
    `sent`, dict, rank -> arrays: the arrays for each other rank, in the memory of `like`.
    """
    group, rank = call.group, call.group.rank
    forms = {to: [(x.shape, x.dtype) for x in arrays] for to, arrays in sent.items()}
    forms_of_ranks: list[dict[int, list[Form]]] = call.all_gather(stage, options, forms)
    senders = [sender for sender, forms in enumerate(forms_of_ranks) if rank in forms]
    distances = {abs(sender - to) for sender, forms in enumerate(forms_of_ranks) for to in forms}
    if not distances:
        return {}
    if distances == {1}:
        size = max(_size(arrays) for forms in forms_of_ranks for arrays in forms.values())
        neighbours = rank - 1, rank + 1
        messages = group.exchange(*(_as_bytes(sent.get(to, ()), size, like) for to in neighbours))
        received = dict(zip(neighbours, messages, strict=True))
        return {k: _arrays_of(received[k], forms_of_ranks[k][rank]) for k in senders}
    size = max(sum(map(_size, forms.values())) for forms in forms_of_ranks)
    arrays = [array for of_receiver in sent.values() for array in of_receiver]
    rows, arrived = group.all_gather(_as_bytes(arrays, size, like)), {}
    for sender in senders:
        forms = forms_of_ranks[sender]
        start = sum(_size(forms[to]) for to in takewhile(lambda to: to != rank, forms))
        arrived[sender] = _arrays_of(rows[sender][start:], forms[rank])
    return arrived


def _size(forms: Sequence[Form]) -> int:
    """Return the bytes of arrays in a message."""
    sizes = (prod(shape) * dtype.itemsize for shape, dtype in forms)
    return sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)


def _as_bytes(arrays: Sequence[Any], size: int, like: Any) -> Any:
    """Return the bytes of arrays, one after the other."""
    forms = [(x.shape, x.dtype) for x in arrays]
    message = backend_of(like).empty((size,), np.dtype(np.uint8))
    for target, array in zip(_arrays_of(message, forms), arrays, strict=True):
        target[...] = array
    return message


def _arrays_of(message: Any, forms: Sequence[Form]) -> list[Any]:
    """Return arrays of these forms in the memory of a message."""
    arrays, start = [], 0
    for shape, dtype in forms:
        stop = start + prod(shape) * dtype.itemsize
        arrays.append(message[start:stop].view(dtype).reshape(shape))
        start += _size([(shape, dtype)])
    return arrays

"""Elements beyond the ends of a rank's part, for gradients over a group.

A function without a group has no other parts: what lies beyond its ends is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.backends import backend_of
from ...core.contract.kernels import HEADER
from .calls import CALL, PATIENCE, GroupCall
from .group import Group


def gradient_call() -> GroupCall | None:
    """Return the call on a group that computes gradients in this context, or None."""
    call = CALL.get()
    return None if call is None or call.lengths is None else call


def beyond(values: Any, axis: int, step: int, count: int = 1) -> Any:
    """Return elements of other ranks that follow a part along an axis, in the array's order.

    `step`, {1, -1}: whether they follow the end of the part, or precede its start.
    `count`: most elements. There are fewer at the end of all parts.
    """
    call = CALL.get()
    assert call is not None
    sent = to_host(_end(values, axis, step, count))
    parts = call.all_gather("elements at the ends of parts", {}, sent, is_last=False)
    rank = call.group.rank
    following = parts[rank + 1 :] if step == 1 else parts[:rank]
    joined = np.concatenate([*following, _end(sent, axis, 1, 0)], axis)
    return backend_of(values).from_host(_end(joined, axis, step, count), values)


def _end(values: Any, axis: int, step: int, count: int) -> Any:
    """Return the first elements along an axis, at most `count`, or with -1 the last ones."""
    end = slice(0, count) if step == 1 else slice(max(values.shape[axis] - count, 0), None)
    return values[(slice(None),) * axis + (end,)]


def edge_of(values: Any, axis: int, step: int, edge: Any) -> Any:
    """Return the element beyond an end of a part; `edge` at the end of all parts."""
    if gradient_call() is None:
        return edge
    following = beyond(values, axis, step)
    return following if following.shape[axis] else edge


def first_of_all(values: Any, axis: int, step: int) -> Any:
    """Return the first element along an axis of all parts, or with -1 the last one."""
    if gradient_call() is not None:
        return outermost(values, axis, 1)[0 if step == 1 else 1]
    return _end(values, axis, step, 1)


def outermost(values: Any, axis: int, count: int) -> tuple[Any, Any]:
    """Return the first and the last elements along an axis of all parts, at most `count`."""
    call = CALL.get()
    if call is None:
        return _end(values, axis, 1, count), _end(values, axis, -1, count)
    sent = [to_host(_end(values, axis, step, count)) for step in (1, -1)]
    parts = zip(*call.all_gather("the ends", {}, sent, is_last=False), strict=True)
    firsts, lasts = (np.concatenate(ends, axis) for ends in parts)
    from_host = backend_of(values).from_host
    return from_host(_end(firsts, axis, 1, count), values), from_host(_end(lasts, axis, -1, count), values)


def total_length(length: int) -> int:
    """Return the length of all parts along an axis; that of this one without a group."""
    call = CALL.get()
    if call is None:
        return length
    return sum(call.all_gather("the lengths", {}, length, is_last=False))


def start_of_part(length: int) -> int:
    """Return the number of steps before a part of this length; 0 without a group."""
    call = CALL.get()
    if call is None:
        return 0
    lengths = call.all_gather("the lengths", {}, length, is_last=False)
    return sum(lengths[: call.group.rank])


def is_first_part(forward: int) -> bool:
    """Return whether the first step is in this part, or with -1 the last step."""
    call = gradient_call()
    if call is None:
        return True
    ranks = [rank for rank, length in enumerate(call.lengths or ()) if length]
    return call.group.rank == (ranks or [0])[0 if forward == 1 else -1]


def is_constant(length: int) -> bool:
    """Return whether an operand with so many elements along the axis is the same at all steps.

    One element is also a part of one step.
    """
    call = gradient_call()
    if call is None or 1 not in (call.lengths or ()):  # No part has one step, on any rank.
        return length == 1
    lengths = call.all_gather("the lengths of an operand", {}, length, is_last=False)
    pairs = zip(lengths, call.lengths or (), strict=True)
    return any(length == 1 and steps != 1 for length, steps in pairs)


@dataclass
class _Lengths:
    """The lengths of all ranks in the last call, and how often a call could not use them."""

    lengths: list[int] | None = None
    failures: int = 0


def start_gradients(length: int, grad: Any, has_common: bool = True) -> Any:
    """Start a call that computes gradients, and return the gradient of a result of all ranks.

    `grad`: the gradient of final states or of a sum, which all ranks return: those of ranks are
      added.
    `has_common`: whether a rank may have such a gradient. Otherwise GPUs use the lengths of an
      earlier call, which its first message confirms. Without that, CacheMiss is raised: start
      again.
    """
    call = CALL.get()
    assert call is not None
    call.is_composed, key = True, (start_gradients, call.function, length)
    known = call.group.prepared.setdefault(key, _Lengths())
    known.failures += call.lengths is not None
    call.lengths = known.lengths
    is_guess = call.may_guess and not has_common and known.failures < PATIENCE
    call.has_old_lengths = is_guess and known.lengths is not None
    if call.has_old_lengths:
        return None
    sent = None if grad is None else to_host(grad)
    messages = call.all_gather("the lengths", {}, (length, sent), is_last=False)
    call.lengths = known.lengths = [length for length, _ in messages]
    gradients = [gradient for _, gradient in messages if gradient is not None]
    return sum(gradients[1:], gradients[0]) if gradients else None


def sum_over_ranks(values: Any, is_last: bool = False) -> Any:
    """Return the sum of the arrays of all ranks, in their order; without a group the array.

    If it `is_last`, the call sends no further message unless it computes gradients: later errors
    reach their own rank alone.
    """
    call = CALL.get()
    if call is None:
        return values
    is_last = is_last and call.lengths is None
    call.is_composed = call.is_composed and not is_last
    fits = HEADER + values.nbytes <= call.group.frame
    if call.may_guess and fits and not backend_of(values).is_host:
        from .device import sum_on_device

        total, call.has_ended = sum_on_device(call.group, values), is_last
        return total
    arrays = call.all_gather("sums over steps", {}, to_host(values), is_last)
    return backend_of(values).from_host(sum(arrays[1:], arrays[0]), values)


@contextmanager
def backward_in_time() -> Iterator[None]:
    """Reverse the order of ranks, for a recurrence over reversed parts."""
    call = CALL.get()
    if call is None:
        yield
        return
    group, call.group = call.group, _Reversed(call.group)
    try:
        yield
    finally:
        call.group = group


class _Reversed(Group):
    """A group whose ranks are in the other order."""

    def __init__(self, group: Group) -> None:
        self.group, self.size, self.rank = group, group.size, group.size - 1 - group.rank

    def all_gather(self, array: Any) -> Any:
        return self.group.all_gather(array)[::-1]

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        return self.group.all_gather_bytes(message)[::-1]

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        return self.group.exchange(to_right, to_left)[::-1]

    def abort(self) -> None:
        self.group.abort()

"""Groups: how many chunks one propagation takes."""

from __future__ import annotations

from math import prod
from typing import Any

from ...core.arrays.chunk import has_unknown_sizes
from ...core.contract.recurrence import AlongAxis

# A group holds its chunks' operands until it has propagated. With 32 small chunks a group, its one
# task is little beside three a chunk; with large chunks memory counts: groups of 256 MiB made a
# worker of 512 MiB spill 290 MB of 1.6 GB.
LARGEST = 32
# Held operands are in memory whatever the size of a group, and each group costs a round trip.
LARGEST_HELD = 128
GROUP_BYTES = 64 << 20
ENTRY_BYTES = 64 << 10


def group_size(
    chunks: tuple[tuple[Any, ...], ...], recurrence: AlongAxis, is_persisted: bool = False
) -> int:
    """Chunks along the axis in one group.

    Parameters
    ----------
    chunks : tuple of tuple of int or nan
    recurrence : AlongAxis
    is_held : bool, optional
        The workers hold the operands already.

    Returns
    -------
    int
        At most 32, with at most 64 MiB of operands; or at most 128 where operands are held.
        Fewer where the group's carry-ins, which travel to each of its chunks, exceed an eighth of a
        chunk's operands (and 64 KiB). All chunks of a row where the recurrence is two-sided.
    """
    if recurrence.is_two_sided:
        return max(1, len(chunks[recurrence.axis]))
    if has_unknown_sizes(chunks):
        return LARGEST
    axis, arrays = recurrence.axis, sum(map(bool, recurrence.varying))
    rows = prod(max(lengths) for k, lengths in enumerate(chunks) if k != axis)
    operands = max(1, rows * max(chunks[axis]) * recurrence.dtype.itemsize * arrays)
    entry = max(1, rows * recurrence.state_dtype.itemsize * recurrence.states)
    by_memory = GROUP_BYTES // operands
    by_travel = max(ENTRY_BYTES, operands // 8) // entry
    if is_persisted:
        return max(1, min(LARGEST_HELD, by_travel))
    return max(1, min(LARGEST, by_memory, by_travel))

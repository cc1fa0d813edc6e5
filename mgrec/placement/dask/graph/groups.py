"""How many chunks one propagation takes together."""

from __future__ import annotations

from math import prod
from typing import Any

from ....arrays.layout import has_unknown_sizes
from ....families.family import AlongAxis

# A group holds its chunks' operands until it has propagated: with groups of 32 small chunks
# a task a group is lost in three a chunk, with large chunks memory counts. Groups of 256 MiB
# made a worker of 512 MiB spill 290 MB of 1.6 GB.
LARGEST = 32
# Operands in memory are there whatever the size of a group: it costs a round of the cluster.
LARGEST_HELD = 128
GROUP_BYTES = 64 << 20
ENTRY_BYTES = 64 << 10


def group_size(
    chunks: tuple[tuple[Any, ...], ...], recurrence: AlongAxis, is_held: bool = False
) -> int:
    """Chunks along the axis in one group.

    Parameters
    ----------
    chunks : tuple of tuple of int or nan
    recurrence : AlongAxis
    is_held : bool, optional
        The operands are in memory already, so that a group holds no more by its size.

    Returns
    -------
    int
        At most 32; fewer where the chunks' operands exceed 64 MiB together, or where
        their entries, which travel to every chunk of the group, exceed an eighth of a
        chunk's operands (and 64 KiB). At most 128, whatever the operands, where they are held.
        All of a row where the recurrence is two-sided.
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
    if is_held:
        return max(1, min(LARGEST_HELD, by_travel))
    return max(1, min(LARGEST, by_memory, by_travel))

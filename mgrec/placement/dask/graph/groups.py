"""How many chunks one propagation takes together."""

from __future__ import annotations

from math import prod
from typing import Any

from ....arrays.layout import has_unknown_sizes
from ..tasks.recipes import Recipe

# A group holds its chunks' operands until it has propagated: with groups of 32 small chunks
# a task a group is lost in three a chunk, with large chunks memory counts. Groups of 256 MiB
# made a worker of 512 MiB spill 290 MB of 1.6 GB.
LARGEST = 32
# Operands in memory are there whatever the size of a group: it costs a round of the cluster.
LARGEST_HELD = 128
GROUP_BYTES = 64 << 20
ENTRY_BYTES = 64 << 10


def group_size(chunks: tuple[tuple[Any, ...], ...], recipe: Recipe, is_held: bool = False) -> int:
    """Chunks along the axis in one group.

    Parameters
    ----------
    chunks : tuple of tuple of int or nan
    recipe : Recipe
    is_held : bool, optional
        The operands are in memory already, so that a group holds no more by its size.

    Returns
    -------
    int
        At most 32; fewer where the chunks' operands exceed 64 MiB together, or where
        their entries, which travel to every chunk of the group, exceed an eighth of a
        chunk's operands (and 64 KiB). At most 128, whatever the operands, where they are held.
    """
    if has_unknown_sizes(chunks):
        return LARGEST
    axis, arrays = recipe.axis, sum(map(bool, recipe.varying))
    rows = prod(max(lengths) for k, lengths in enumerate(chunks) if k != axis)
    operands = max(1, rows * max(chunks[axis]) * recipe.dtype.itemsize * arrays)
    entry = max(1, rows * recipe.state_dtype.itemsize * recipe.states)
    by_memory = GROUP_BYTES // operands
    by_travel = max(ENTRY_BYTES, operands // 8) // entry
    if is_held:
        return max(1, min(LARGEST_HELD, by_travel))
    return max(1, min(LARGEST, by_memory, by_travel))

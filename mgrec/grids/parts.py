"""Into which parts tiles may be cut, so that those that wait for them wait for less."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod, sqrt

from ..core.contract.kernels import Part

# Profiles of sequences, and threads' rows at once, want no fewer steps.
_UNIT, _SIDE = 64, 1024
# Columns that an alignment's last rows are behind its first, a row (22,000 at 200,000 rows): cut
# into p parts, m columns of n rows take m + p · lag · n, and the next GPU waits for m / p of them,
# which is least at p² = m / (lag · n). The same of a loop.
_LAG = 0.11


def part_of_host(cells: int, shape: Sequence[int], side: int) -> Part:
    """Parts of some cells, which have the bits of the plain loop wherever they are cut."""
    return Part(_UNIT, max(_SIDE, -(-cells // max(1, prod(shape) // max(1, shape[side - 2])))))


def part_of_gpu(shape: Sequence[int]) -> Part:
    """Parts of a tile that strips of blocks go through one after the other."""
    *_, rows, columns = shape
    return Part(128, max(4096, ceil(sqrt(_LAG * rows * columns))))

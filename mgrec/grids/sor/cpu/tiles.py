"""The threads of some sweeps: tiles of levels and times, along antidiagonals."""

from __future__ import annotations

from collections.abc import Iterator

from ....engines.cpu.threads import split_range

Tile = tuple[tuple[int, int], tuple[int, int]]
"""Begin and end of its levels, and of its times."""

# Parts of the levels and times, a thread: on the first and last antidiagonals threads are idle,
# but each costs 0.1 ms.
_LEVELS, _TIMES = 4, 8


def antidiagonals(shape: tuple[int, ...], sweeps: int, threads: int) -> Iterator[list[Tile]]:
    """Tiles of some sweeps over (strips, steps, lanes), in lists that threads may share."""
    (count, steps, lanes), one = shape, threads < 2
    levels = split_range(count + sweeps - 1, 1 if one else _LEVELS * threads)
    times = split_range(lanes * (count - 1) + steps + sweeps, 1 if one else _TIMES * threads)
    for number in range(len(levels) + len(times) - 1):
        tiles = [
            (levels[k], times[number - k])
            for k in range(max(0, number - len(times) + 1), min(number + 1, len(levels)))
        ]
        yield [tile for tile in tiles if _has_steps(tile, shape, sweeps)]


def _has_steps(tile: Tile, shape: tuple[int, ...], sweeps: int) -> bool:
    (top, bottom), (begin, end), (count, steps, lanes) = *tile, shape
    first, last = max(0, top - sweeps + 1), min(count, bottom) - 1
    return lanes * first < end and begin < lanes * last + steps + sweeps

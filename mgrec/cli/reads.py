"""How often the chunks of a store are read: each is decompressed as a whole every time."""

from __future__ import annotations

from math import prod
from pathlib import PurePath

import click

# Below this many reads none of this is noticed: a read takes about a millisecond.
MANY_READS = 1000


def warn_if_misaligned(
    path: str, stored: tuple[int, ...] | None, chunks: tuple[tuple[int, ...], ...]
) -> None:
    """Warn where chunks of a solve cut those of a store (one length an axis) many times."""
    if not stored:
        return
    reads = prod(map(_touched, chunks, stored))
    there = prod(-(-sum(own) // length) for own, length in zip(chunks, stored, strict=True))
    if reads > MANY_READS and reads >= 2 * there:
        longest = tuple(map(max, chunks))
        click.echo(
            f"Warning: {PurePath(path).name} is stored in {there:,} chunks of {stored} and read in "
            f"chunks of up to {longest}, so that each is read {reads / there:.1f} times: give "
            f"--chunk a multiple of its length, or store it in other chunks",
            err=True,
        )


def _touched(lengths: tuple[int, ...], stored: int) -> int:
    """The stored chunks along an axis that chunks of these lengths read, together."""
    count = start = 0
    for length in lengths:
        if length:
            count += -(-(start + length) // stored) - start // stored
        start += length
    return count

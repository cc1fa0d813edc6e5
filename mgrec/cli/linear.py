"""``mgrec linear``: w = s·w + t from files to a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np

from ..placement.dask.cluster.warm import warm_up
from ..recurrences.linear import linear_recurrence
from . import failure, operands, options, stores
from .places import Place, PlaceType
from .writing import Solve, solve_to_file

HELP = f"""Solve w_i = s_i·w_(i-1) + t_i for arrays in files.

S is a number, or an array that broadcasts against T. Arrays are .npy files, .zarr stores or
arrays of .zarr groups (weather.zarr/rain), or URLs of these that fsspec opens (s3://...); OUT
behind a URL is a .zarr store. They are read and OUT is written chunk by chunk, so that neither
has to fit into memory. On a cluster of several machines all paths must lie on a file system that
every worker sees.

OUT appears when it is complete, and not before: whatever goes wrong, nothing half-written
is left under its name.

{failure.EXIT_CODES}"""


@dataclass(frozen=True)
class Job:
    """What to solve: operands as numbers or files, and the options of the recurrence."""

    s: Any
    t: stores.Stored
    initial: Any
    axis: int
    reverse: bool
    chunk: int | None
    memory: str

    def lazy(self) -> Solve:
        """The result, not computed yet, and how to compile its kernels."""
        inputs = operands.stored((self.s, self.t))
        shape = _broadcast(inputs)
        chunks = operands.cut(shape, self.axis, self.chunk, inputs)
        s, t = (operands.lazy(value, chunks, shape) for value in (self.s, self.t))
        initial = self.initial[...] if isinstance(self.initial, stores.Stored) else self.initial
        about: Any = {"axis": self.axis, "reverse": self.reverse, "memory": self.memory}
        with operands.refused():
            w: da.Array = linear_recurrence(s, t, initial, **about)
        about["initial"] = initial
        return Solve(w, lambda client: warm_up(linear_recurrence, s, t, client=client, **about))


def _broadcast(inputs: list[stores.Stored]) -> tuple[int, ...]:
    try:
        shape = np.broadcast_shapes(*(stored.shape for stored in inputs))
    except ValueError:
        shapes = " and ".join(f"{Path(i.path).name}: {i.shape}" for i in inputs)
        raise failure.BadInput(f"the shapes of S and T must broadcast; got {shapes}") from None
    if not shape:
        raise failure.BadInput("T must have at least one axis; got a single number")
    return shape


@click.command(
    "linear",
    help=HELP,
    short_help="Solve w = s·w + t for arrays in files.",
    # A negative number for S looks like an option.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("s", type=operands.NumberOrFile())
@click.argument("t", type=PlaceType())
@options.output(".npy or .zarr")
@click.option("--initial", default="0", help="w before the first step: a number or a file.")
@options.axis("steps")
@click.option("--reverse", is_flag=True, help="Run from the end of the axis.")
@options.chunk("steps")
@options.memory("Hold a group of chunks between the phases, or read the inputs twice.")
@options.running
def linear(
    s: str, t: Place, initial: str, axis: int, reverse: bool, chunk: int | None, memory: str,
    **running: Any,
) -> None:  # fmt: skip
    def lazy() -> Solve:
        source, start = stores.find(t), operands.number_or_file(initial)
        factor = operands.number_or_file(s)
        return Job(factor, source, start, axis, reverse, chunk, memory).lazy()

    solve_to_file(lazy, "steps", **running)

"""``mgrec tridiagonal``: tridiagonal systems from files to a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import dask.array as da
from distributed import Client

from ..placement.dask.cluster.warm import warm_up
from ..recurrences.tridiagonal import solve_tridiagonal
from . import failure, operands, options, stores
from .writing import Solve, solve_to_file

WHOLE = ("thomas", "cyclic-reduction", "pcr")
METHODS = ("auto", "partition", *WHOLE, "p-scheme")

HELP = f"""Solve dl_i·x_(i-1) + d_i·x_i + du_i·x_(i+1) = b_i for arrays in files.

DL, D, DU and B are numbers, or arrays that broadcast against each other: .npy files or .zarr
stores. One of them must be an array. The diagonals DL, below the main one D, and DU, above it,
have as many entries as D: the first of DL and the last of DU do not count, unless --periodic.
The files are read and OUT is written chunk by chunk. On a cluster of several machines all
paths must lie on a file system that every worker sees.

OUT appears when it is complete, and not before: where a system is singular, or whatever goes
wrong, nothing half-written is left under its name.

{failure.EXIT_CODES}"""


@dataclass(frozen=True)
class Job:
    """What to solve: dl, d, du and b as numbers or files, and the options of the function."""

    values: tuple[Any, ...]
    chunk: int | None
    options: dict[str, Any]

    def lazy(self) -> Solve:
        """The result, not computed yet, and how to compile its kernels."""
        inputs = operands.stored(self.values)
        if not any(stored.shape for stored in inputs):
            raise failure.BadInput("one of DL, D, DU and B must be a file of at least one axis")
        shape = self._shape()
        axis, steps = self.options["axis"], self.chunk
        if self.options["method"] in WHOLE:
            if steps is not None and steps < shape[axis]:
                method = self.options["method"]
                raise failure.BadInput(f"--method {method} needs whole systems: leave out --chunk")
            steps = max(1, shape[axis])
        chunks = operands.cut(shape, axis, steps, inputs)
        *diagonals, b = self.values
        # The diagonals are cut like a result that lacks the axis of right-hand sides.
        own_chunks, own_shape = list(chunks), list(shape)
        if self.options["rhs_axis"] is not None:
            del own_chunks[self.options["rhs_axis"]], own_shape[self.options["rhs_axis"]]
        cut = [operands.lazy(value, tuple(own_chunks), tuple(own_shape)) for value in diagonals]
        values = (*cut, operands.lazy(b, chunks, shape))

        def compile(client: Client) -> None:
            # The P-scheme is several recurrences, which are compiled one after the other.
            if self.options["method"] != "p-scheme":
                warm_up(solve_tridiagonal, *values, client=client, **self.options)

        return Solve(self._solve(*values), compile)

    def _shape(self) -> tuple[int, ...]:
        """The shape of the result; bad arguments are refused on the way, nothing is read."""

        def whole(value: Any) -> Any:
            if not isinstance(value, stores.Stored):
                return value
            return stores.lazy(value, tuple((length,) for length in value.shape), value.shape)

        return self._solve(*map(whole, self.values)).shape

    def _solve(self, *values: Any) -> da.Array:
        with operands.refused():
            return solve_tridiagonal(*values, **self.options)


@click.command(
    "tridiagonal",
    help=HELP,
    short_help="Solve tridiagonal systems for arrays in files.",
    # A negative number looks like an option.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("values", metavar="DL D DU B", nargs=4, type=operands.NumberOrFile())
@options.output(".npy or .zarr")
@options.axis("unknowns")
@click.option(
    "--rhs-axis", type=int,
    help="An axis of B, of right-hand sides of the same matrices, that the diagonals lack.",
)  # fmt: skip
@click.option(
    "--method", type=click.Choice(METHODS), default="auto", show_default=True,
    help="auto and partition pivot; the others are for comparison.",
)  # fmt: skip
@click.option("--periodic", is_flag=True, help="The ends meet.")
@click.option(
    "--check-finite/--no-check-finite", default=True, show_default=True,
    help="Fail at nan and inf, or make their systems nan.",
)  # fmt: skip
@options.chunk("unknowns")
@options.memory("Hold the operands, if need be on disk, until all are read, or read them twice.")
@options.running
def tridiagonal(
    values: tuple[str, ...], axis: int, rhs_axis: int | None, method: str, periodic: bool,
    check_finite: bool, chunk: int | None, memory: str, **running: Any,
) -> None:  # fmt: skip
    about = {
        "axis": axis, "rhs_axis": rhs_axis, "method": method, "periodic": periodic,
        "check_finite": check_finite, "memory": memory,
    }  # fmt: skip

    def lazy() -> Solve:
        return Job(tuple(map(operands.number_or_file, values)), chunk, about).lazy()

    solve_to_file(lazy, "unknowns", **running)

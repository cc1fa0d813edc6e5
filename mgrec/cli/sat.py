"""``mgrec sat``: the summed-area table of an image."""

from __future__ import annotations

from typing import Any

import click
import dask.array as da
import numpy as np

from ..recurrences.tables import summed_area_table
from . import failure, images, operands, options, stores
from .compiling import everywhere
from .places import Place, PlaceType
from .writing import Solve, solve_to_file

DTYPES = ("uint32", "int32", "uint64", "int64", "float32", "float64")

HELP = f"""Write the summed-area table of IMAGE, S[i, j] = the sum of IMAGE[:i + 1, :j + 1].

IMAGE is a file that Pillow reads (.png, .tif, .jpg and others), with a table for each of its
channels, or a .npy file or .zarr store (or a URL of one) with a table for each index of other
axes. Tables are computed and OUT is written chunk by chunk. On a cluster of several machines all
paths must lie on a file system that every worker sees.

OUT appears when it is complete, and not before.

{failure.EXIT_CODES}"""


def lazy_table(
    path: Place, axes: tuple[int, int] | None, dtype: str | None, chunk: int | None
) -> Solve:
    """The table, not computed yet, and how to compile its kernels."""
    stored = images.find(path)
    axes = images.axes_of(stored) if axes is None else axes

    def table(x: Any) -> da.Array:
        with operands.refused():
            return summed_area_table(x, axes, dtype=dtype)

    whole = stores.lazy(stored, tuple((length,) for length in stored.shape), stored.shape)
    result = table(whole)  # wrong axes are told before anything is cut
    wanted = {} if chunk is None else {k: min(chunk, max(1, stored.shape[k])) for k in axes}
    chunks = stores.cut(stored.shape, wanted, result.dtype, stored.chunks)
    lazy = table(stores.lazy(stored, chunks, stored.shape))
    return Solve(lazy, everywhere(_compile, stored.dtype, dtype))


def _compile(dtype: Any, sums: str | None) -> None:
    summed_area_table(np.zeros((2, 2), dtype), dtype=sums)


@click.command("sat", help=HELP, short_help="Write the summed-area table of an image.")
@click.argument("image", type=PlaceType())
@options.output(".npy or .zarr")
@click.option(
    "--axes", type=int, nargs=2,
    help="Those of the table [default: rows and columns of an image, else the last two].",
)  # fmt: skip
@click.option(
    "--dtype", type=click.Choice(DTYPES),
    help="In which sums are added up [default: as of numpy.cumsum].",
)  # fmt: skip
@options.chunk("rows, and columns")
@options.running
def sat(
    image: Place, axes: tuple[int, int] | None, dtype: str | None, chunk: int | None, **running: Any
) -> None:
    solve_to_file(lambda: lazy_table(image, axes, dtype, chunk), "pixels", **running)

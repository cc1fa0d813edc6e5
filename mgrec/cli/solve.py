"""``mgrec linear``, ``tridiagonal``, ``filter`` and ``sat``: solve arrays in files to a file."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
from distributed import Client, performance_report
from distributed.client import futures_of
from rich.console import Console

from ..distributed.observability import steps_of
from ..distributed.warm_up import warm_up
from ..filters.causal import sosfilt
from ..filters.zero_phase import sosfiltfilt
from ..grids.table.api import summed_area_table
from ..scans.functions import linear_recurrence
from ..tridiagonal.api import solve_tridiagonal
from . import cluster as clusters
from . import files
from .failure import EXIT_CODES, BadInput, in_one_line
from .machine import require

EPILOG = f"""Arrays are .npy files, .zarr stores, arrays within these (weather.zarr/rain), or URLs
of zarr stores. They are read, and the output is written, chunk by chunk: none has to fit into
memory. Chunks that a store lacks have its fill value, as zarr defines it. The output appears when
it is complete, and not before. On a cluster of several machines all paths must lie on a file
system that every worker sees.

{EXIT_CODES}"""


class Operand(click.ParamType):  # type: ignore[type-arg]  # of click 8.5
    """A number, which may be negative, or an array in a file."""

    name = "number or file"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        for parse in (int, float, complex):
            with suppress(ValueError):
                return parse(value)
        if re.match("-[-A-Za-z]", value):
            raise click.NoSuchOption(value, ctx=ctx)
        return files.open_array(value)


def command(name: str, unit: str) -> Callable[[Any], click.Command]:
    """Turn a function into a command with the options that all commands of this file have."""
    path = click.Path(path_type=Path)
    length = f"{unit.capitalize()} a chunk along the axis [default: about 32 MiB]."
    page = "An HTML page of what the workers did and when (needs bokeh)."
    options = (
        click.option("-o", "--output", "out", required=True, type=path, help=".npy or .zarr."),
        click.option("--chunk", type=click.IntRange(1), help=length),
        click.option("--overwrite", is_flag=True, help="Replace the output if it exists."),
        click.option("--report", type=path, help=page),
        click.option("--cluster", default="threads", show_default=True, help=clusters.HELP),
    )

    def make(function: Any) -> click.Command:
        for option in reversed(options):
            function = option(function)
        # A negative number looks like an option.
        settings: Any = {"context_settings": {"ignore_unknown_options": True}}
        return click.command(name, epilog=EPILOG, **settings)(function)

    return make


axis_option = click.option("--axis", default=-1, show_default=True, help="The axis of the steps.")


@command("linear", "steps")
@click.argument("s", type=Operand())
@click.argument("t", type=Operand())
@click.option("--initial", type=Operand(), default="0", help="w before the first step.")
@axis_option
@click.option("--reverse", is_flag=True, help="Run from the end of the axis.")
def linear(s: Any, t: Any, initial: Any, axis: int, **options: Any) -> None:
    """Solve w_i = s_i·w_(i-1) + t_i; S, T and --initial are numbers or arrays in files."""
    options["initial"] = np.asarray(initial[...]) if _is_file(initial) else initial
    solve(linear_recurrence, (s, t), "steps", (axis,), axis=axis, **options)


@command("tridiagonal", "unknowns")
@click.argument("operands", metavar="DL D DU B", nargs=4, type=Operand())
@axis_option
@click.option("--rhs-axis", type=int, help="An axis of B that the diagonals lack.")
@click.option("--periodic", is_flag=True, help="The ends meet.")
@click.option(
    "--check-finite/--no-check-finite",
    default=True,
    show_default=True,
    help="Fail at nan and inf, or make their systems nan.",
)
def tridiagonal(operands: tuple[Any, ...], axis: int, **options: Any) -> None:
    """Solve dl_i·x_(i-1) + d_i·x_i + du_i·x_(i+1) = b_i for numbers or arrays in files.

    The diagonals DL, below the main one D, and DU, above it, have as many entries as D: the first
    of DL and the last of DU do not count, unless --periodic.
    """
    solve(solve_tridiagonal, operands, "unknowns", (axis,), axis=axis, **options)


@command("sat", "rows, and columns,")
@click.argument("x", type=Operand())
@click.option("--axes", type=int, nargs=2, default=(-2, -1), show_default=True)
def sat(x: Any, axes: tuple[int, int], **options: Any) -> None:
    """Write the summed-area table of X, an array in a file: sums of X[:i + 1, :j + 1]."""
    solve(summed_area_table, (x,), "pixels", axes, axes=axes, **options)


def _read(context: Any, option: Any, path: str | None) -> np.ndarray | None:
    return None if path is None else np.asarray(files.open_array(path)[...])


@command("filter", "samples")
@click.argument("x", metavar="IN", type=Operand())
@click.option("--butter", "order", type=click.IntRange(1), help="Order of a Butterworth filter.")
@click.option("--low", type=float, help="Low-pass: keep frequencies below this one.")
@click.option("--high", type=float, help="High-pass: keep frequencies above this one.")
@click.option("--band", nargs=2, type=float, help="Band-pass: keep frequencies between two.")
@click.option("--rate", type=float, default=1.0, show_default=True, help="Samples a second.")
@click.option("--sos", callback=_read, help="A file of second-order sections.")
@click.option("--zero-phase", is_flag=True, help="Forward and backward: nothing is delayed.")
@axis_option
def filter_(
    x: Any,
    order: int | None,
    rate: float,
    sos: Any,
    zero_phase: bool,
    axis: int,
    low: float | None,
    high: float | None,
    band: Any,
    **options: Any,
) -> None:
    """Filter IN, an array in a file, along an axis.

    The filter is a Butterworth filter (--butter ORDER with --low, --high or --band, which needs
    SciPy), or second-order sections (--sos FILE, rows b0 b1 b2 1 a1 a2). Frequencies are in hertz
    where --rate gives the samples a second, else in cycles a sample.
    """
    bands = {"low": low, "high": high, "band": band}
    edges = {option: edge for option, edge in bands.items() if edge is not None}
    if (order is None) == (sos is None):
        raise BadInput("one of --butter and --sos must say what filter it is")
    if edges and order is None:
        raise BadInput("--low, --high and --band belong to --butter")
    sections = sos if order is None else _butterworth(order, edges, rate)
    function = sosfiltfilt if zero_phase else sosfilt
    solve(function, (sections, x), "samples", (axis,), axis=axis, **options)


def _butterworth(order: int, edges: dict[str, Any], rate: float) -> np.ndarray:
    """Return a Butterworth filter as second-order sections."""
    if len(edges) != 1:
        raise BadInput("--butter wants one of --low, --high and --band")
    ((option, edge),) = edges.items()
    if not all(0 < number < rate / 2 for number in np.atleast_1d(edge)):
        raise BadInput(f"--{option} must lie above 0 and below half of --rate, {rate:g}; got {edge}")
    require("scipy", "scipy", "--butter")
    from scipy.signal import butter

    try:
        return np.asarray(butter(order, edge, f"{option}pass", fs=rate, output="sos"))
    except ValueError as error:
        raise BadInput(f"--{option} {edge}: {error}") from error


def solve(
    function: Callable[..., Any],
    operands: Sequence[Any],
    unit: str,
    along: tuple[int, ...],
    *,
    out: Path,
    chunk: int | None,
    overwrite: bool,
    report: Path | None,
    cluster: str,
    **options: Any,
) -> None:
    """Write a function of operands to `out`, and print the speed in `unit` a second.

    `chunk` is the chunk length along the axes `along`. The time excludes compilation, except for
    grids.
    """
    with in_one_line(f"{out} was not written"), ExitStack() as stack:
        if out.suffix not in (".npy", ".zarr"):
            raise BadInput(f"{out} must end in .npy or .zarr")
        if out.suffix == ".zarr":
            require("zarr", "zarr", out)
        files.check_output(out, overwrite)
        if report is not None:
            files.check_output(report, overwrite=True)
            require("bokeh", "report", "--report")
        arrays = [operand for operand in operands if _is_file(operand)]
        ndim = max((len(array.shape) for array in arrays), default=0)
        if ndim == 0:
            raise BadInput("one operand must be an array in a file, of at least one axis")
        lengths = {} if chunk is None else {k if k < 0 else k - ndim: chunk for k in along}
        with _as_messages():
            loaded = [files.lazy(x, lengths) if _is_file(x) else x for x in operands]
            w = function(*loaded, **options)
            # Operands in different chunks are rechunked; the chunks of a store must be regular.
            w = w.rechunk(tuple(max(1, sizes[0]) for sizes in w.chunks))
        # Close the cluster before the file is moved or removed: its workers have it open.
        part = stack.enter_context(files.replaced_when_complete(out, overwrite))
        target = files.create(part, w)
        page = report and stack.enter_context(files.replaced_when_complete(report))
        client = stack.enter_context(clusters.open_cluster(cluster))
        status = Console(stderr=True).status("Loading kernels; the first time they are compiled")
        with status:
            client.run(_is_file, None)  # a worker imports this module
            with suppress(TypeError):  # for grids
                warm_up(function, *loaded, client=client, **options)
        if page:
            stack.enter_context(client.as_current())
            stack.enter_context(performance_report(filename=str(page)))
        seconds = fill(target, w, client, f"Writing {out.name}", unit)
        workers, threads = clusters.describe(client)
    computed_by = f"{workers} worker{'s' * (workers != 1)}, {threads} thread{'s' * (threads != 1)}"
    click.echo(
        f"{out}: {w.dtype} {w.shape} in {seconds:.2f} s, {w.size / max(seconds, 1e-9):.3g} "
        f"{unit}/s, {computed_by}"
    )


def _is_file(operand: Any) -> bool:
    return hasattr(operand, "chunks")


@contextmanager
def _as_messages() -> Iterator[None]:
    """Show each warning in one line, and convert errors of arguments to BadInput."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        except (TypeError, ValueError, NotImplementedError) as error:
            raise BadInput(str(error)) from error
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)


def fill(target: Any, w: da.Array, client: Client, title: str, unit: str = "steps") -> float:
    """Compute an array into an existing file, chunk by chunk; return the seconds."""
    written = w.map_blocks(
        _write_block,
        target=target,
        chunks=tuple((1,) * len(lengths) for lengths in w.chunks),
        meta=np.empty((0,) * w.ndim, np.int64),
    )
    with clusters.bars() as progress:
        bar = progress.add_task(title, total=w.size, unit=unit)
        start = time.perf_counter()
        futures = futures_of(client.persist(written))
        clusters.follow(client, futures, steps_of(w, futures), progress, bar)
        return time.perf_counter() - start


def _write_block(block: Any, target: Any, block_info: Any = None) -> np.ndarray:
    """Write a chunk to the file; return the number of its steps."""
    target[tuple(slice(*bounds) for bounds in block_info[0]["array-location"])] = block
    return np.full((1,) * block.ndim, block.size)

"""``mgrec filter``: filter a recording from a file to a file."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np

from ..recurrences.filters.causal import lfilter, sosfilt
from ..recurrences.filters.zero_phase import filtfilt, sosfiltfilt
from . import failure, hints, options, recordings, stores
from .compiling import everywhere
from .places import Place, PlaceType
from .reads import warn_if_misaligned
from .writing import Solve, solve_to_file

# Samples that any filter can be tried on.
SHORT = 1 << 16

HELP = f"""Filter IN along an axis.

IN and OUT are .npy files, .zarr stores or .wav files (RF64 above 4 GiB); IN may also be an array
of a .zarr group, a URL that fsspec opens, or a recording that libsndfile reads, such as .flac.
Recordings need soundfile. The filter is one of: a Butterworth
filter (--butter ORDER with --low, --high or --band, which needs SciPy), second-order sections
(--sos FILE, an array of rows b0 b1 b2 1 a1 a2), or a transfer function (--ba FILE, two rows b
and a). FILE is .npy, or .json with nested lists.

Frequencies are in hertz where --rate gives the samples a second (a .wav file knows its own),
else in cycles a sample.

IN is read and OUT is written chunk by chunk, so that neither has to fit into memory. OUT
appears when it is complete, and not before.

{failure.EXIT_CODES}"""


@dataclass(frozen=True)
class Design:
    """A filter: sections, or b and a."""

    sos: np.ndarray | None
    b: np.ndarray | None = None
    a: np.ndarray | None = None

    def run(self, x: da.Array, axis: int, zero_phase: bool) -> da.Array:
        try:
            if self.sos is not None:
                return (sosfiltfilt if zero_phase else sosfilt)(self.sos, x, axis)
            return (filtfilt if zero_phase else lfilter)(self.b, self.a, x, axis)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise failure.BadInput(str(error)) from error

    def compile(self, dtype: np.dtype[Any], ndim: int, axis: int, zero_phase: bool) -> None:
        """Filter a few samples, in chunks."""
        shape = [2] * ndim
        shape[axis] = SHORT
        chunks = tuple(max(1, length // 4) for length in shape)
        with suppress(failure.BadInput):  # of filters that are longer than this
            y = self.run(da.zeros(shape, chunks=chunks, dtype=dtype), axis, zero_phase)
            y.compute(scheduler="sync")


def _butterworth(order: int, edges: dict[str, Any], rate: float) -> Design:
    """A Butterworth filter as sections."""
    given = {kind: edge for kind, edge in edges.items() if edge is not None}
    if len(given) != 1:
        raise failure.BadInput("--butter wants one of --low, --high and --band")
    ((kind, edge),) = given.items()
    try:
        from scipy.signal import butter
    except ImportError:
        raise failure.BadInput(f"--butter needs SciPy: {hints.install('scipy')}") from None
    try:
        return Design(butter(order, edge, f"{kind}pass", fs=rate, output="sos"))
    except ValueError as error:
        raise failure.BadInput(f"--butter {order} with --{kind} {edge}: {error}") from error


def _read_numbers(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            return json.loads(path.read_text())
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        raise failure.BadInput(f"{path} cannot be read as numbers: {error}") from error


def _as_floats(numbers: Any) -> np.ndarray:
    return np.asarray(numbers, complex if np.iscomplexobj(numbers) else float)


def _from_file(path: Path, is_sections: bool) -> Design:
    numbers = _read_numbers(path)
    try:
        if is_sections:
            return Design(np.atleast_2d(_as_floats(numbers)))
        b, a = map(_as_floats, numbers)
        return Design(None, b, a)
    except (TypeError, ValueError) as error:
        wanted = "rows of six numbers" if is_sections else "two rows of numbers, b and a"
        raise failure.BadInput(f"{path} must hold {wanted}: {error}") from error


def _design(
    order: int | None, edges: dict[str, Any], rate: float, sos: Path | None, ba: Path | None
) -> Design:
    if sum(part is not None for part in (order, sos, ba)) != 1:
        raise failure.BadInput("one of --butter, --sos and --ba must say what filter it is")
    if order is not None:
        return _butterworth(order, edges, rate)
    if any(edge is not None for edge in edges.values()):
        raise failure.BadInput("--low, --high and --band belong to --butter")
    return _from_file(sos, True) if sos is not None else _from_file(ba or Path(), False)


def _positive(context: Any, parameter: Any, value: Any) -> Any:
    """A frequency, or two: 0 would be taken for none given, and nan for any."""
    if value is not None and not all(0 < number < np.inf for number in np.atleast_1d(value)):
        raise click.BadParameter(f"must be above 0 and finite; got {value}")
    return value


@click.command("filter", help=HELP, short_help="Filter a recording in a file.")
@click.argument("source", metavar="IN", type=PlaceType())
@options.output(".npy, .zarr or .wav")
@click.option("--butter", "order", type=click.IntRange(1), help="Order of a Butterworth filter.")
@click.option(
    "--low", type=float, callback=_positive, help="Low-pass: keep what is below this frequency."
)
@click.option(
    "--high", type=float, callback=_positive, help="High-pass: keep what is above this frequency."
)
@click.option(
    "--band", nargs=2, type=float, callback=_positive,
    help="Band-pass: keep what is between two frequencies.",
)  # fmt: skip
@click.option(
    "--rate", type=float, callback=_positive,
    help="Samples a second [default: of the .wav file, or 1].",
)  # fmt: skip
@click.option("--sos", type=click.Path(path_type=Path), help="A file of second-order sections.")
@click.option("--ba", type=click.Path(path_type=Path), help="A file of b and a.")
@click.option("--zero-phase", is_flag=True, help="Forward and backward: nothing is delayed.")
@click.option("--axis", type=int, help="The axis of time [default: the last one; 0 of .wav].")
@options.chunk("samples")
@options.running
def filter_(
    source: Place, order: int | None, low: float | None, high: float | None,
    band: tuple[float, float] | None, rate: float | None, sos: Path | None, ba: Path | None,
    zero_phase: bool, axis: int | None, chunk: int | None, **running: Any,
) -> None:  # fmt: skip
    def lazy() -> Solve:
        recording = recordings.find(source)
        along = recording.axis if axis is None else axis
        samples_a_second = rate or recording.rate or 1.0
        edges = {"low": low, "high": high, "band": band}
        design = _design(order, edges, samples_a_second, sos, ba)
        y = design.run(_lazy(recording.stored, along, chunk), along, zero_phase)
        y = recordings.as_output(running["out"], y, samples_a_second)
        about = recording.stored.dtype, recording.stored.ndim, along, zero_phase
        create = partial(recordings.create, rate=samples_a_second)
        return Solve(y, everywhere(design.compile, *about), create)

    solve_to_file(lazy, "samples", check_kind=recordings.check_kind, **running)


def _lazy(stored: stores.Stored, axis: int, chunk: int | None) -> da.Array:
    if not -stored.ndim <= axis < stored.ndim:
        raise failure.BadInput(f"axis must fit the shape {stored.shape}; got {axis}")
    chunks = stores.chunks_for(stored.shape, axis, chunk, [stored])
    warn_if_misaligned(stored.path, stored.chunks, chunks)
    return stores.lazy(stored, chunks, stored.shape)

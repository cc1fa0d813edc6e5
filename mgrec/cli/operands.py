"""Operands of a solve: numbers, or arrays in files, cut into chunks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from ..placement.dask.graph.build import MANY_CHUNKS
from . import failure, stores
from .places import check_no_option, kind_of, place_of
from .reads import warn_if_misaligned


def _number(value: str) -> Any:
    """The number that a text is, or None."""
    parsers: tuple[Callable[[str], Any], ...] = (int, float, complex)
    for parse in parsers:
        with suppress(ValueError):
            return parse(value)
    return None


def number_or_file(value: str) -> Any:
    """A number, or an array in a file."""
    number = _number(value)
    if number is not None:
        return number
    place = place_of(value)
    if kind_of(place) not in stores.KINDS:
        raise failure.BadInput(f"{value} is no number, and does not end in .npy or .zarr")
    return stores.find(place)


class NumberOrFile(click.ParamType):  # type: ignore[type-arg]  # of click 8.5
    """The text of a number, which may be negative, or of where an array is."""

    name = "number or path"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """As it is: a file is opened when all arguments are known."""
        if _number(value) is None:
            check_no_option(value, ctx)
        return str(value)


def stored(values: Sequence[Any]) -> list[stores.Stored]:
    """Those operands that are files."""
    return [value for value in values if isinstance(value, stores.Stored)]


def cut(
    shape: tuple[int, ...], axis: int, steps: int | None, inputs: Sequence[stores.Stored]
) -> tuple[tuple[int, ...], ...]:
    """Chunks of a result of this shape; a warning tells if they are too many."""
    if not -len(shape) <= axis < len(shape):
        raise failure.BadInput(f"axis must fit the shape {shape}; got {axis}")
    chunks = stores.chunks_for(shape, axis, steps, inputs)
    count = len(chunks[axis])
    if count > MANY_CHUNKS:
        advice = f"{count} chunks along axis {axis} are slow to plan: raise --chunk"
        click.echo(f"Warning: {advice}", err=True)
    return chunks


def lazy(value: Any, chunks: tuple[tuple[int, ...], ...], shape: tuple[int, ...]) -> Any:
    """A file as a Dask array cut like a result of `shape`; a number as it is."""
    if not isinstance(value, stores.Stored):
        return value
    array = stores.lazy(value, chunks, shape)
    warn_if_misaligned(value.path, value.chunks, array.chunks)
    return array


@contextmanager
def refused() -> Iterator[None]:
    """Make bad input of what a function says of its arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `cut` has warned of --chunk
            yield
    except (TypeError, ValueError) as error:
        raise failure.BadInput(str(error)) from error

"""Arrays of a zarr group, as xarray writes a Dataset."""

from __future__ import annotations

from typing import Any

import click

from .failure import BadInput
from .places import Place, Remote, kind_of


def only_one(place: Place, group: Any) -> str:
    """The name of the one array of a group that is no coordinate."""
    arrays = dict(sorted(group.arrays()))
    wanted = {name: array for name, array in arrays.items() if not _is_coordinate(name, array)}
    if len(wanted) != 1:
        shown = ", ".join(f"{name} {tuple(array.shape)}" for name, array in wanted.items())
        example = f": name one of them, as in {place}/{next(iter(wanted))}" if wanted else ""
        raise BadInput(f"{place} is a group of {len(wanted)} arrays{f', {shown}' * bool(wanted)}"
                       f"{example}")  # fmt: skip
    name = next(iter(wanted))
    click.echo(f"Reading {place}/{name}, the array of the group", err=True)
    return name


def _is_coordinate(name: str, array: Any) -> bool:
    """Whether an array has the numbers of the axis that it is named after."""
    dims = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    return tuple(dims or ()) == (name,)


def instead(place: Place) -> str:
    """For messages: what a store has in place of a member that is not there."""
    if kind_of(place) != ".zarr" or place.suffix == ".zarr" or isinstance(place, Remote):
        return ""
    store = next(parent for parent in place.parents if parent.suffix == ".zarr")
    if not store.exists():
        return ""
    import zarr

    found = zarr.open(str(store), mode="r")
    names = sorted(name for name, _ in found.arrays()) if isinstance(found, zarr.Group) else []
    return f"; {store} has {', '.join(names) or 'no members'}"

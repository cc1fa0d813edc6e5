"""Where arrays are: paths of this file system, and URLs that fsspec opens."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import click

from . import hints
from .failure import BadInput


@dataclass(frozen=True)
class Remote:
    """A file or a store behind a URL, such as ``s3://bucket/rain.zarr``."""

    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.url.partition("://")[2])

    @property
    def suffix(self) -> str:
        return self._path.suffix

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def parents(self) -> Any:
        return self._path.parents

    def exists(self) -> bool:
        return bool(self.filesystem().exists(self.url))

    def remove(self) -> None:
        """Remove what is there, and all in it."""
        files = self.filesystem()
        if files.exists(self.url):
            files.rm(self.url, recursive=True)

    def filesystem(self) -> Any:
        """What fsspec opens it by.

        Raises
        ------
        BadInput
            The package for its scheme is not installed.
        """
        if importlib.util.find_spec("fsspec") is None:
            raise BadInput(f"{self} needs fsspec: {hints.install('remote')}")
        import fsspec

        try:
            return fsspec.core.url_to_fs(self.url)[0]
        except (ImportError, ValueError) as error:
            # Of another scheme than fsspec knows, or of one that needs a package: it names that.
            raise BadInput(f"{self} cannot be opened: {error}") from None


Place = Path | Remote


def place_of(text: str | Path) -> Place:
    """A path, or a URL."""
    return Remote(str(text)) if "://" in str(text) else Path(text)


def kind_of(place: Place) -> str:
    """The suffix that tells how to read it; that of the store of a member."""
    if place.suffix in (".npy", ".zarr"):
        return place.suffix
    inside = any(parent.suffix == ".zarr" for parent in place.parents)
    return ".zarr" if inside else place.suffix


class PlaceType(click.ParamType):  # type: ignore[type-arg]  # of click 8.5
    """A path or a URL on the command line."""

    name = "path"

    def convert(self, value: Any, param: Any, ctx: Any) -> Place:
        if isinstance(value, str):
            check_no_option(value, ctx)
            return place_of(value)
        return value


def check_no_option(text: str, ctx: Any) -> None:
    """Raise for an option that a command does not have, where numbers may be negative."""
    if text.startswith("--") or (text.startswith("-") and text[1:2].isalpha()):
        raise click.NoSuchOption(text, ctx=ctx)

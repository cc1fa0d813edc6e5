"""Check that workers have the version of mgrec that the client has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from distributed import Client

# Seconds that workers have for their answers. Workers that do not answer are not judged here.
PATIENCE = 10.0
# Most workers that the message names.
NAMED = 3


async def check_workers(client: Client, workers: Sequence[str] | None = None) -> None:
    """Raise RuntimeError if workers, by default all, have no mgrec or another version.

    A message that refers to mgrec ends the connection of a worker without it. The scheduler then
    removes the worker, and no error says why.
    """
    read_version = _version_of(__name__.partition(".")[0])
    versions: dict[str, str | Exception | None] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            versions = await client.run(read_version, workers=workers, on_error="return")
    wanted = read_version()
    others = [
        f"{address} has {version or 'none'}"
        for address, version in versions.items()
        if version != wanted and not isinstance(version, Exception)  # of a lost worker
    ]
    if others:
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        raise RuntimeError(
            f"workers must have mgrec {wanted}, as the client; {', '.join(others[:NAMED])}{more}: "
            f"install it in the environment of each worker"
        )


def _version_of(package: str) -> Callable[[], str | None]:
    """Return a function that returns the version of a package, or None.

    A nested function is pickled by value, so that a worker without mgrec can run it.
    """

    def read() -> str | None:
        from importlib import import_module
        from importlib.util import find_spec

        return import_module(package).__version__ if find_spec(package) else None

    return read

"""Kernels are compiled before the work is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed import Client
from rich.console import Console

Compile = Callable[[Client], None]


def compile_on(client: Client, compile: Compile) -> None:
    """Load the kernels on every worker; those that are not in the cache are compiled."""
    with Console(stderr=True).status("Loading kernels; the first time they are compiled"):
        # A worker imports this package, with all that it imports, before it calls a function of it.
        client.run(_imported)
        compile(client)


def _imported() -> None:
    """Nothing more."""


def everywhere(function: Callable[..., Any], *arguments: Any) -> Compile:
    """Call a function in the process of every worker."""

    def compile(client: Client) -> None:
        client.run(function, *arguments)

    return compile

"""Kernels are compiled before the work is timed, and the command says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distributed import Client
from rich.console import Console

Compile = Callable[[Client], None]


def compile_on(client: Client, compile: Compile) -> None:
    """Compile, or load what was compiled before, on every worker."""
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    text = f"Compiling on {workers} worker{'s' * (workers != 1)} (the first time only)"
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(text)
    with console.status(text):
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

"""What users see of tasks: names of phases, notes in errors, lines in the log, and progress."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

import dask.array.core as da
import numpy as np
from dask.core import flatten
from distributed import Client, Future, as_completed
from distributed.client import futures_of

from .arguments import check_dask_array, client_of
from .expressions import accepts_expressions

logger = logging.getLogger("mgrec")

PHASES = ("pack", "speculate", "precompute", "propagate", "determine")
"""The first words of task names, in the order of the tasks.

A pack loads the operands of a chunk; where chunks may not depend on their carry-ins, the task
"speculate" also speculates.
"""


def phase_of(key: object) -> str | None:
    """Return the phase of a task, from its key or its layer's name; None for other tasks.

    >>> phase_of(("propagate-0a1b", 0, 3))
    'propagate'
    >>> phase_of("sum-aggregate-0a1b") is None
    True
    """
    name = key[0] if isinstance(key, tuple) else key
    phase = str(name).partition("-")[0]
    return phase if phase in PHASES else None


@contextmanager
def in_chunk(phase: str, chunk_index: tuple[int, ...], starts: tuple[int, ...]) -> Iterator[None]:
    """Add a note that names the chunk to any error raised inside.

    `starts` is the index of the chunk's first element, -1 along an axis of unknown chunk sizes.

    >>> try:
    ...     with in_chunk("determine", (7,), (3500,)):
    ...         raise ValueError("no such step")
    ... except ValueError as error:
    ...     error.__notes__
    ['mgrec: in the phase determine of chunk (7,), which begins at [3500]']
    """
    try:
        yield
    except Exception as error:
        first = ", ".join("?" if start < 0 else str(start) for start in starts)
        error.add_note(f"mgrec: in the phase {phase} of chunk {chunk_index}, which begins at [{first}]")
        raise


def log_solve(array: Any) -> None:
    """Log the tasks of a lazy result at level DEBUG, without building its graph."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    tasks = {
        name.rsplit("-", 1)[0]: len(layer) for name, layer in array.dask.layers.items() if phase_of(name)
    }
    counts = ", ".join(f"{name} {count}" for name, count in tasks.items())
    logger.debug("solve: %s, tasks %s", _description(array), counts)


def log_planned(arrays: Sequence[Any], workers: int, seconds: float) -> None:
    """Log the time of a solve without a graph, whose results are arrays or a score."""
    if logger.isEnabledFor(logging.DEBUG):
        description = _description(arrays[0]) if arrays else "a score"
        logger.debug("solve: %s, %d workers, %.1f ms", description, workers, seconds * 1e3)


def _description(array: Any) -> str:
    longest = tuple(max(lengths) for lengths in array.chunks)
    return f"shape {array.shape}, chunks {array.numblocks} of up to {longest}, {array.dtype}"


def follow(client: Client, futures: Sequence[Future], sizes: Sequence[int]) -> Generator[int, None, None]:
    """Yield the steps of every chunk as it finishes; one future and one size a chunk.

    Raise the error of the first chunk that failed, with a note that names the chunk; cancel the
    other chunks.
    """
    steps: dict[Any, int] = {f.key: size for f, size in zip(futures, sizes, strict=True)}
    try:
        for future in as_completed(futures, loop=client.loop):
            if future.status != "finished":
                _raise(future)
            yield steps[future.key]
    except BaseException:
        client.cancel(list(futures), force=True)
        raise


def _raise(future: Future) -> None:
    try:
        future.result()
    except Exception as error:
        if not hasattr(error, "__notes__"):
            error.add_note(f"mgrec: in chunk {tuple(future.key[1:])}")
        raise


def steps_of(array: da.Array, futures: Sequence[Future]) -> list[int]:
    """Return the steps of the chunk of each future of a persisted array."""
    chunk_indices = [future.key[1:] for future in futures]
    return [
        int(np.prod([lengths[k] for lengths, k in zip(array.chunks, index, strict=True)]))
        for index in chunk_indices
    ]


@accepts_expressions
def progress(array: Any, name: str = "Solving", client: Client | None = None) -> None:
    """Show in a notebook or a terminal how many steps are done, until all are.

    Parameters
    ----------
    array : dask.array.Array
        A persisted array with known chunk sizes.
    name : str, optional
        Text before the bar.
    client : distributed.Client, optional
        Default: the default client.

    Raises
    ------
    TypeError
        `array` is not a Dask array.
    ValueError
        `array` is not persisted, even if its operands are.
    Exception
        The error of the first chunk that failed, with a note that names the chunk. The other
        chunks are cancelled.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address=None):
    ...     w = mgrec.linear_recurrence(0.5, da.ones(1000, chunks=100)).persist()
    ...     mgrec.dask.progress(w)
    """
    check_dask_array("array", array)
    keys = set(flatten(array.__dask_keys__()))
    # Futures of its graph may also be those of a persisted operand.
    futures = [future for future in futures_of(array) if future.key in keys]
    if len(futures) < array.npartitions:
        raise ValueError("array must be persisted: its chunks are tasks; call persist() on it")
    client = client_of(client)
    show, done = _display(name), 0
    show(0, array.size)
    with closing(follow(client, futures, steps_of(array, futures))) as finished:
        for steps in finished:
            done += steps
            show(done, array.size)


def _display(name: str) -> Callable[[int, int], None]:
    """Return a function that shows a bar in a notebook, or a line on a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return _in_notebook(name)
    return _on_terminal(name) if sys.stderr.isatty() else lambda done, total: None


def _in_notebook(name: str) -> Callable[[int, int], None]:
    notebook = import_module("IPython.display")

    def bar(done: int, total: int) -> Any:
        text = f"{name}: {done:,} of {total:,} steps"
        return notebook.HTML(f'<progress value="{done}" max="{max(total, 1)}"></progress> {text}')

    handle = notebook.display(bar(0, 0), display_id=True)
    return lambda done, total: handle.update(bar(done, total))


def _on_terminal(name: str) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{name}: {done:,} of {total:,} steps{end}")
        sys.stderr.flush()

    return show

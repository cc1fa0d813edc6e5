"""``mgrec warm-up``: compile what first calls compile on a CPU, and store it on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import click

from ..engines.cpu.threads import processor_count
from .cluster import bars, signals_blocked
from .examples import EXAMPLES, Compiled, Example, compile_kernels
from .failure import EXIT_CODES, BadInput, Failure, in_one_line

EPILOG = f"""Functions compile when they are first called, and store the compiled code on disk: in
the folder that NUMBA_CACHE_DIR names, or else that of the package. It is for this user, this
version of mgrec, and this type of processor.

{EXIT_CODES}"""


@click.command("warm-up", epilog=EPILOG)
@click.argument("functions", nargs=-1, metavar="[FUNCTION]...")
@click.option("--jobs", type=click.IntRange(1), help="Processes that compile [default: one a processor].")
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Compile also for arrays of this many elements.",
)
def warm_up(functions: tuple[str, ...], jobs: int | None, steps: int) -> None:
    """Compile functions of mgrec for this CPU, so that their first calls take little time.

    FUNCTION is a name such as lfilter, or hmm.sample where two functions have it; the default are
    all functions. Each is called with small examples: one row, rows and columns, in float64 and
    float32.
    """
    with in_one_line("compiled code stays on disk"):
        examples = select(functions)
        processes = min(jobs or processor_count(), len(examples))
        start = time.monotonic()
        with signals_blocked():
            pool = ProcessPoolExecutor(processes, get_context("spawn"))
            futures = [pool.submit(compile_kernels, example.path, steps) for example in examples]
        try:
            compiled = _follow(futures)
        finally:
            pool.shutdown(cancel_futures=True)
        _report(compiled, processes, time.monotonic() - start)


def select(names: Sequence[str]) -> list[Example]:
    """Return the examples of functions, by default of all, in the order in which to compile.

    The first ones are of different families: functions of a family share kernels, which two
    processes would compile at once.
    """
    paths = [example.path for example in EXAMPLES]
    chosen = set[str]() if names else {*paths}
    for name in names:
        matches = [path for path in paths if f".{path}".endswith(f".{name.removeprefix('mgrec.')}")]
        if not matches:
            raise BadInput(f"there is no function {name!r}; functions: {', '.join(paths)}")
        chosen.update(matches)
    examples = [example for example in EXAMPLES if example.path in chosen]
    families = [example.family for example in examples]
    order = sorted(range(len(examples)), key=lambda k: families[:k].count(families[k]))
    return [examples[k] for k in order]


def _follow(futures: Sequence[Future[Compiled]]) -> list[Compiled]:
    """Show the progress of the processes, and return what they compiled."""
    compiled = []
    with bars() as progress:
        bar = progress.add_task("Compiling", total=len(futures), unit="functions")
        for future in as_completed(futures):
            function = future.result()
            if function.reason is not None:
                raise Failure(function.reason)
            compiled.append(function)
            progress.advance(bar)
    return compiled


def _report(compiled: Sequence[Compiled], processes: int, seconds: float) -> None:
    kernels = sum(function.kernels for function in compiled)
    for function in compiled:
        if function.kernels:
            kernel_count = _counted(function.kernels, "kernel")
            click.echo(f"{function.path:<27}{kernel_count:>10}{function.seconds:>7.1f} s")
    what = f"compiled {_counted(kernels, 'kernel')}" if kernels else "all kernels were on disk"
    functions, jobs = _counted(len(compiled), "function"), _counted(processes, "process", "es")
    click.echo(f"{functions}: {what}; {seconds:.1f} s, {jobs}")


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{plural if count != 1 else ''}"

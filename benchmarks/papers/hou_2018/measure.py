"""What is measured: three loops over grids of one area, and weighted scans of growing size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import mgrec

from ...harness.clock import Clock
from ...harness.study import Study
from .loops import STRATEGIES, Call, Loop, loops

REPETITIONS = 7
TOLERANCE = 1e-4
# The paper's pairs: ∘ ≠ ◇, and ∘ = ◇.
PAIRS = {"∘ ≠ ◇": ("+", "*"), "∘ = ◇": ("+", "+")}


@dataclass(frozen=True)
class ChunkIndex:
    """NumPy or CuPy, and how calls are timed there; those with streams of their own by the host."""

    xp: Any
    settle: Callable[[], Any] | None = None
    clock: Clock | None = None
    host_clock: Clock | None = None

    def free(self) -> None:
        if hasattr(self.xp, "get_default_memory_pool"):
            self.xp.get_default_memory_pool().free_all_blocks()


def shapes(study: Study, place: ChunkIndex, area: int, powers: range) -> None:
    """All loops over grids of 2^area cells."""
    for power in powers:
        rows, columns = 2**power, 2 ** (area - power)
        for loop in loops(place.xp, rows, columns):
            one_shape(study, place, loop, rows, columns)
        place.free()


def one_shape(study: Study, place: ChunkIndex, loop: Loop, rows: int, columns: int) -> None:
    """One loop by all strategies, checked against its tiles, which have the loop's bits."""
    case = f"{loop.name} {rows:,} x {columns:,}"
    calls: dict[str, Call] = {name: partial(loop.call, strategy=name) for name in STRATEGIES}
    calls[loop.own_name] = loop.own
    loop.call(strategy="tiles")
    wanted = loop.out.copy()
    sound, picked = {}, ""
    for name, call in calls.items():
        try:
            loop.out.fill(-1)
            with picks() as found:
                call()
            # Of the first call of a kind: later ones are prepared, and say nothing.
            picked = found[0] if name == "hybrid" and found else picked
            if name in STRATEGIES:
                require_near(loop.out, wanted)
            sound[name] = call
        except (NotImplementedError, ArithmeticError) as error:
            study.miss(case, name, " ".join(str(error).split())[:300])
    about = {"part": loop.name, "rows": rows, "columns": columns, "steps": rows * columns}
    about |= {"bytes": loop.words * loop.out.nbytes, "picked": picked}
    study.compare(case, sound, REPETITIONS, place.settle, place.clock, **about)


def require_near(result: Any, wanted: Any) -> None:
    size = float(abs(wanted).max())
    error = float(abs(result - wanted).max()) / max(size, 1.0)
    if not error < TOLERANCE:
        raise ArithmeticError(f"deviates from the loop by {error:.3g} of the largest entry")


@contextmanager
def picks() -> Iterator[list[str]]:
    """What the hybrid strategy says that it has picked."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(str(record.args[0]) if record.args else "")

    logger, listener = logging.getLogger("mgrec"), Listener()
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)


def scans(study: Study, place: ChunkIndex, sizes: range) -> None:
    """Weighted scans of one row, with one weight, beside scans of a library."""
    for power in sizes:
        x = place.xp.random.default_rng(power).random(2**power, dtype="f4")
        for pair, operators in PAIRS.items():
            out = place.xp.empty_like(x)
            scan = partial(mgrec.weighted_scan, x, 0.5, operators=operators, out=out)
            calls = {"weighted_scan": scan, "inclusive": partial(scan, inclusive=True)}
            calls |= peers(place.xp, x, operators)
            about = {"part": pair, "size": x.size, "steps": x.size, "bytes": 2 * x.nbytes}
            case = f"{pair} 2^{power}"
            study.compare(case, calls, REPETITIONS, place.settle, place.clock, **about)
            if place.host_clock:
                custom = custom_operator(x, operators)
                study.compare(case, custom, REPETITIONS, place.settle, place.host_clock, **about)
        place.free()


def peers(xp: Any, x: Any, operators: tuple[str, str]) -> dict[str, Call]:
    """A library's scan: with weights the filter of one coefficient, without them the sum."""
    if operators == ("+", "+"):
        return {"cumsum": partial(xp.cumsum, x)}
    if xp.__name__ == "cupy":
        from cupyx.scipy.signal import lfilter
    else:
        from scipy.signal import lfilter
    one, weight = (xp.asarray(values, "f4") for values in ([1.0], [1.0, -0.5]))
    return {"lfilter": partial(lfilter, one, weight, x)}


def custom_operator(x: Any, operators: tuple[str, str]) -> dict[str, Call]:
    """A library's scan with an operator of the user's: that of jax, compiled."""
    try:
        import jax
    except ImportError:
        return {}
    x = jax.dlpack.from_dlpack(x)
    if operators == ("+", "+"):
        scan = jax.jit(lambda x: jax.lax.associative_scan(jax.numpy.add, x + 0.5))
    else:
        scan = jax.jit(lambda x: jax.lax.associative_scan(_join, (0 * x + 0.5, x))[1])
    return {"jax.lax.associative_scan": lambda: scan(x).block_until_ready()}


def _join(earlier: tuple[Any, Any], later: tuple[Any, Any]) -> tuple[Any, Any]:
    return earlier[0] * later[0], later[0] * earlier[1] + later[1]

"""What is measured: three loops over grids of one area, and weighted scans of growing size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import mgrec

from ...harness.clock import Call
from ...harness.machine import optional
from ...harness.study import Study
from ..timing import GPU, HOST, Machine
from .report import STRATEGIES

REPETITIONS = 7
TOLERANCE = 1e-4
# The paper's pairs: ∘ ≠ ◇, and ∘ = ◇.
PAIRS = {"∘ ≠ ◇": ("+", "*"), "∘ = ◇": ("+", "+")}


@dataclass(frozen=True)
class Loop:
    """One of the paper's loops over one grid: `call` takes a strategy, and writes to `out`.

    `words` are numbers read and written a cell. `own` is mgrec's function of the loop;
    smith_waterman finds the best score and keeps no grid.
    """

    name: str
    words: int
    out: Any
    call: Callable[..., Any]
    own: Call
    own_name: str


def loops(xp: Any, rows: int, columns: int) -> Iterator[Loop]:
    """SAT, SW and SOR over random grids, of NumPy or CuPy as `xp`."""
    generator = xp.random.default_rng(rows)
    yield sat(xp, generator, (rows, columns))
    yield sw(xp, generator, (rows, columns))
    yield sor(xp, generator, (rows, columns))


def sat(xp: Any, generator: Any, shape: tuple[int, int]) -> Loop:
    """A[i, j] = p[i, j] + A[i, j-1] + A[i-1, j] - A[i-1, j-1]."""
    x = generator.random(shape, dtype="f4")
    out = xp.empty_like(x)
    call = partial(mgrec.wavefront, x, weights=(1, 1, -1), out=out)
    own = partial(mgrec.summed_area_table, x, dtype="f4", out=xp.empty_like(x))
    return Loop("SAT", 2, out, call, own, "summed_area_table")


def sw(xp: Any, generator: Any, shape: tuple[int, int]) -> Loop:
    """A[i, j] = max(A[i, j-1] - 2, A[i-1, j] - 2, A[i-1, j-1] + s[i, j], 0)."""
    query, target = (generator.integers(0, 4, n, dtype="u1") for n in shape)
    scores = xp.where(query[:, None] == target, 3, -3).astype("i4")
    nothing = xp.broadcast_to(xp.asarray([[-(2**20)]], "i4"), shape)
    out = xp.empty(shape, "i4")
    call = partial(
        mgrec.wavefront,
        nothing,
        weights=(-2, -2, scores),
        operators=("max", "+"),
        floor=0,
        above=0,
        left=0,
        corner=0,
        out=out,
    )
    own = partial(mgrec.smith_waterman, query, target, match=3, mismatch=-3, gap=-2)
    return Loop("SW", 2, out, call, own, "smith_waterman, score")


def sor(xp: Any, generator: Any, shape: tuple[int, int]) -> Loop:
    """A[i, j] = (A[i, j] + A[i, j-1] + A[i-1, j] + A[i+1, j] + A[i, j+1]) / 5.

    What is read of the grid before the sweep is added up beforehand: it depends on no result.
    """
    x = generator.random((shape[0] + 2, shape[1] + 2), dtype="f4")
    old = (x[1:-1, 1:-1] + x[2:, 1:-1] + x[1:-1, 2:]) * xp.float32(0.2)
    out = xp.empty_like(old)
    above, left = xp.ascontiguousarray(x[0, 1:-1]), xp.ascontiguousarray(x[1:-1, 0])
    call = partial(mgrec.wavefront, old, weights=(0.2, 0.2, 0), above=above, left=left, corner=0, out=out)
    own = partial(mgrec.sor, x, omega=0.8, out=xp.empty_like(x))
    return Loop("SOR", 2, out, call, own, "sor")


def machine_of(xp: Any) -> Machine:
    return GPU if xp.__name__ == "cupy" else HOST


def free(xp: Any) -> None:
    if xp.__name__ == "cupy":
        xp.get_default_memory_pool().free_all_blocks()


def shapes(study: Study, xp: Any, area: int, powers: range) -> None:
    """All loops over grids of 2^area cells."""
    for power in powers:
        rows, columns = 2**power, 2 ** (area - power)
        for loop in loops(xp, rows, columns):
            one_shape(study, machine_of(xp), loop, rows, columns)
        free(xp)


def one_shape(study: Study, machine: Machine, loop: Loop, rows: int, columns: int) -> None:
    """One loop by all strategies, checked against its tiles, which have the loop's bits."""
    case = f"{loop.name} {rows:,} x {columns:,}"
    calls: dict[str, Call] = {name: partial(loop.call, strategy=name) for name in STRATEGIES}
    calls[loop.own_name] = loop.own
    loop.call(strategy="tiles")
    wanted = loop.out.copy()
    about = {"part": loop.name, "rows": rows, "columns": columns, "steps": rows * columns}
    about |= {"bytes": loop.words * loop.out.nbytes, "picked": picked_by(calls["hybrid"])}

    def check(name: str) -> dict[str, Any]:
        loop.out.fill(-1)
        calls[name]()
        if name in STRATEGIES:
            require_near(loop.out, wanted)
        return {}

    study.compare(case, calls, REPETITIONS, machine.settle, machine.clock, check, **about)


def require_near(result: Any, wanted: Any) -> None:
    size = float(abs(wanted).max())
    error = float(abs(result - wanted).max()) / max(size, 1.0)
    if not error < TOLERANCE:
        raise ArithmeticError(f"deviates from the loop by {error:.3g} of the largest entry")


def picked_by(call: Call) -> str:
    """What the hybrid strategy says in its first call that it picked: later ones are prepared."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(str(record.args[0]) if record.args else "")

    logger, listener = logging.getLogger("mgrec"), Listener()
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    try:
        call()
    except NotImplementedError:  # which its check says, too
        return ""
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)
    return found[0] if found else ""


def scans(study: Study, xp: Any, sizes: range) -> None:
    """Weighted scans of one row, with one weight, beside scans of a library."""
    machine = machine_of(xp)
    for power in sizes:
        x = xp.random.default_rng(power).random(2**power, dtype="f4")
        for pair, operators in PAIRS.items():
            scan = partial(mgrec.weighted_scan, x, 0.5, operators=operators, out=xp.empty_like(x))
            calls = {"weighted_scan": scan, "inclusive": partial(scan, inclusive=True)}
            calls |= peers(xp, x, operators)
            about = {"part": pair, "size": x.size, "steps": x.size, "bytes": 2 * x.nbytes}
            case = f"{pair} 2^{power}"
            study.compare(case, calls, REPETITIONS, machine.settle, machine.clock, **about)
            if machine.host_clock:
                custom = custom_operator(x, operators)
                clocks = machine.settle, machine.host_clock
                study.compare(case, custom, REPETITIONS, *clocks, **about)
        free(xp)


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
    jax = optional("jax")
    if jax is None:
        return {}
    x = jax.dlpack.from_dlpack(x)
    if operators == ("+", "+"):
        scan = jax.jit(lambda x: jax.lax.associative_scan(jax.numpy.add, x + 0.5))
    else:
        scan = jax.jit(lambda x: jax.lax.associative_scan(_join, (0 * x + 0.5, x))[1])
    return {"jax.lax.associative_scan": lambda: scan(x).block_until_ready()}


def _join(earlier: tuple[Any, Any], later: tuple[Any, Any]) -> tuple[Any, Any]:
    return earlier[0] * later[0], later[0] * earlier[1] + later[1]

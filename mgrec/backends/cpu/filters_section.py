"""One section b(z)/a(z) along a run of samples, from the samples before it.

Inside a row a section's state is its last inputs and outputs (direct form I): then nothing
but one multiply-add waits for the output before. Three loops, by the section:

* *feed-forward*: a is 1; the taps four at a time.
* *blocks*: eight outputs at once from the eight inputs, by the impulse response, and the k
  inputs and outputs before them. Rounding of eight steps ahead grows where poles crowd:
  :meth:`mgrec.phases.cascade.Cascade.block_noise` says where this loop may be taken.
* *steps*: the inputs first, several at a time; then y_n = v_n − a_k·y_{n−k} − … − a_1·y_{n−1}
  in this order, so that each output waits for the last product alone. Outputs of the last
  16 steps stay in registers; taps beyond read them eight at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba

from .compilation import OPTIONS
from .filters_lanes import (
    WIDTH,
    add_columns,
    add_last_lanes,
    load_columns,
    load_lanes,
    no_lanes,
    spread,
)
from .lane_checks import extremes, none_above, widen
from .lanes import fma, store

FUSED: dict[str, Any] = {**OPTIONS, "fastmath": {"contract"}}
# Samples checked together: x, y and v of them stay in the L1 cache.
BLOCK = 1024
NEAR = 16


@numba.njit(**FUSED)
def feed_forward(x: Any, v: Any, b: Any) -> None:
    """v_n = Σ b_j·x_{n−j}; x has b.size − 1 more samples in front."""
    past = b.size - 1
    full = v.size // (4 * WIDTH) * (4 * WIDTH)
    zero = no_lanes(v)
    for at in range(0, full, 4 * WIDTH):
        p = q = r = s = zero
        for j in range(past, -1, -1):
            tap, left = spread(b[j], zero), at + past - j
            p = fma(tap, load_lanes(x, left, WIDTH), p)
            q = fma(tap, load_lanes(x, left + WIDTH, WIDTH), q)
            r = fma(tap, load_lanes(x, left + 2 * WIDTH, WIDTH), r)
            s = fma(tap, load_lanes(x, left + 3 * WIDTH, WIDTH), s)
        store(v, at, p)
        store(v, at + WIDTH, q)
        store(v, at + 2 * WIDTH, r)
        store(v, at + 3 * WIDTH, s)
    for i in range(full, v.size):
        w = 0.0
        for j in range(past, -1, -1):
            w += b[j] * x[i + past - j]
        v[i] = w


@numba.njit(**FUSED)
def one_by_one(v: Any, y: Any, a: Any, first: int, end: int) -> None:
    """y_n = v_n − Σ a_j·y_{n−j}, where v[0] belongs to y[first]."""
    for n in range(first, end):
        w = v[n - first]
        for j in range(a.size - 1, 0, -1):
            w -= a[j] * y[n - j]
        y[n] = w


@cache
def in_blocks(order: int, put: Any = store) -> Any:
    """The loop that computes eight outputs at once, which `put` writes.

    It returns where it stopped, and whether all outputs are at most `top` in size.
    """

    @numba.njit(**OPTIONS)
    def advance(x: Any, y: Any, table: Any, first: int, end: int, top: float) -> Any:
        response = load_columns(table, 0, WIDTH)
        inputs = load_columns(table, WIDTH * WIDTH, order)
        outputs = load_columns(table, WIDTH * (WIDTH + order), order)
        before = load_lanes(y, first - WIDTH, WIDTH)
        zero, sizes = no_lanes(y), extremes(before)
        full = first + (end - first) // WIDTH * WIDTH
        for at in range(first, full, WIDTH):
            total = add_columns(zero, response, x, at)
            total = add_columns(total, inputs, x, at - order)
            before = add_last_lanes(total, outputs, before)
            put(y, at, before)
            sizes = widen(sizes, before)
        return full, none_above(sizes, top)

    return advance


@cache
def in_steps(order: int) -> Any:
    """The loop over single outputs, the last ones in registers; returns where it stopped."""
    near = min(order, NEAR)
    held = [f"y{j}" for j in range(1, near + 1)]
    lines = ["def advance(v, y, a, first, end):"]
    lines += [f"    a{j} = a[{j}]" for j in range(1, near + 1)]
    lines += [f"    y{j} = y[first - {j}]" for j in range(1, near + 1)]
    lines.append(f"    full = first + (end - first) // {near} * {near}")
    lines.append(f"    for at in range(first, full, {near}):")
    if order > near:
        lines.append("        subtract_far(v, y, a, first, at)")
    for step in range(near):
        terms = "".join(f" - a{j} * {held[j - 1]}" for j in range(near, 0, -1))
        lines.append(f"        {held[-1]} = v[at - first + {step}]{terms}")
        lines.append(f"        y[at + {step}] = {held[-1]}")
        held.insert(0, held.pop())
    lines.append("    return full")
    scope = {"subtract_far": _subtract_far}
    exec("\n".join(lines), scope)
    return numba.njit(**FUSED)(scope["advance"])


@numba.njit(**OPTIONS)
def _subtract_far(v: Any, y: Any, a: Any, first: int, at: int) -> None:
    """From the NEAR values v from `at` on: what outputs more than NEAR steps back bring."""
    lower, upper = load_lanes(v, at - first, WIDTH), load_lanes(v, at - first + WIDTH, WIDTH)
    for j in range(a.size - 1, NEAR, -1):
        tap = spread(-a[j], lower)
        lower = fma(tap, load_lanes(y, at - j, WIDTH), lower)
        upper = fma(tap, load_lanes(y, at - j + WIDTH, WIDTH), upper)
    store(v, at - first, lower)
    store(v, at - first + WIDTH, upper)


@numba.njit(**OPTIONS)
def state_after(b: Any, a: Any, x: Any, y: Any, end: int, state: Any) -> None:
    """SciPy's state (direct form II transposed) from the inputs and outputs before `end`."""
    order = state.size
    for i in range(order):
        z = 0.0
        for j in range(order, i, -1):
            z += b[j] * x[end + i - j]
            if a.size > 1:
                z -= a[j] * y[end + i - j]
        state[i] = z

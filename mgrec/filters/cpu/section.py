"""One section b(z)/a(z) along a run of samples, from the samples before it.

Inside a row a section's state is its last inputs and outputs (direct form I): then only one
multiply-add waits for the output before. Three loops:

* *feed-forward*, where a is 1: four registers of outputs at a time.
* *blocks*: eight outputs at once, from eight inputs and the k inputs and outputs before them.
  Rounding errors grow where poles crowd: the loop is taken where
  :func:`mgrec.filters.blocks.block_noise` is low.
* *steps*: the inputs first, several at a time; then y_n = v_n − a_k·y_{n−k} − … − a_1·y_{n−1}
  in this order, so that each output waits for the last product alone. Outputs of the last
  16 steps stay in registers; further taps read them eight at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba

from ...engines.cpu.compilation import INNER
from ...engines.cpu.simd.checks import no_extremes, none_above, update_extremes
from ...engines.cpu.simd.lanes import fma, store
from .lanes import (
    WIDTH,
    add_columns,
    add_last_lanes,
    load_columns,
    load_float64,
    load_lanes,
    no_lanes,
    spread,
    store_rounded,
)
from .plain import put_number

FUSED: dict[str, Any] = {**INNER, "fastmath": {"contract"}}
# Samples widened to float64 at a time: few, since memory waits while they are filtered.
WIDENED = 64
NEAR = 16


@numba.njit(**INNER)
def copy_line(source: Any, target: Any) -> None:
    """``target[:source.size] = source``, both contiguous; `target` is float64."""
    full = source.size // WIDTH * WIDTH
    for at in range(0, full, WIDTH):
        store(target, at, load_float64(source, at))
    for at in range(full, source.size):
        target[at] = source[at]


@numba.njit(**FUSED)
def feed_forward(x: Any, v: Any, b: Any) -> None:
    """v_n = Σ b_j·x_{n−j}, in float64 and rounded to v; x has b.size − 1 more in front."""
    past = b.size - 1
    full = v.size // (4 * WIDTH) * (4 * WIDTH)
    zero = no_lanes(b)
    for at in range(0, full, 4 * WIDTH):
        p = q = r = s = zero
        for j in range(past, -1, -1):
            tap, left = spread(b[j], zero), at + past - j
            p = fma(tap, load_float64(x, left), p)
            q = fma(tap, load_float64(x, left + WIDTH), q)
            r = fma(tap, load_float64(x, left + 2 * WIDTH), r)
            s = fma(tap, load_float64(x, left + 3 * WIDTH), s)
        store_rounded(v, at, p)
        store_rounded(v, at + WIDTH, q)
        store_rounded(v, at + 2 * WIDTH, r)
        store_rounded(v, at + 3 * WIDTH, s)
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
def _block_loop(order: int, put: Any) -> Any:
    """Load the matrices of :func:`block_table`; run them over `count` samples."""

    @numba.njit(**INNER)
    def load_matrices(table: Any) -> Any:
        return (
            load_columns(table, 0, WIDTH),
            load_columns(table, WIDTH * WIDTH, order),
            load_columns(table, WIDTH * (WIDTH + order), order),
        )

    @numba.njit(**INNER)
    def run(
        x: Any,
        y: Any,
        first_x: int,
        first_y: int,
        count: int,
        matrices: Any,
        before: Any,
        sizes: Any,
    ) -> Any:
        response, inputs, outputs = matrices
        zero = no_lanes(x)
        for n in range(0, count, WIDTH):
            total = add_columns(zero, response, x, first_x + n)
            total = add_columns(total, inputs, x, first_x + n - order)
            before = add_last_lanes(total, outputs, before)
            put(y, first_y + n, before)
            sizes = update_extremes(sizes, before)
        return before, sizes

    return load_matrices, run


@cache
def in_blocks(order: int, put: Any) -> Any:
    """The loop over float64 that computes eight outputs at once, which `put` writes.

    `recent` holds the last eight outputs, on entry and on exit. The loop returns where it stopped,
    and whether all outputs are at most `top` in size.
    """
    load_matrices, run = _block_loop(order, put)

    @numba.njit(**INNER)
    def advance(
        x: Any, y: Any, wide: Any, recent: Any, table: Any, first: int, end: int, top: float
    ) -> Any:
        matrices, before = load_matrices(table), load_lanes(recent, 0, WIDTH)
        sizes = no_extremes(before)
        full = first + (end - first) // WIDTH * WIDTH
        before, sizes = run(x, y, first, first, full - first, matrices, before, sizes)
        store(recent, 0, before)
        return full, none_above(sizes, top)

    return advance


@cache
def in_widened_blocks(order: int, put: Any) -> Any:
    """The loop of :func:`in_blocks` over float32, WIDENED samples at a time in `wide`.

    `wide` begins with the eight inputs before `first`. To widen each input for each product
    took twice the time at order 1, and 1024 at a time half as much again: memory waited.
    """
    load_matrices, run = _block_loop(order, put)

    @numba.njit(**INNER)
    def advance(
        x: Any, y: Any, wide: Any, recent: Any, table: Any, first: int, end: int, top: float
    ) -> Any:
        matrices, before = load_matrices(table), load_lanes(recent, 0, WIDTH)
        sizes = no_extremes(before)
        full = first + (end - first) // WIDTH * WIDTH
        for left in range(first, full, WIDENED):
            count = min(WIDENED, full - left)
            copy_line(x[left : left + count], wide[WIDTH:])
            before, sizes = run(wide, y, WIDTH, left, count, matrices, before, sizes)
            store(wide, 0, load_lanes(wide, count, WIDTH))
        store(recent, 0, before)
        return full, none_above(sizes, top)

    return advance


@cache
def in_steps(order: int) -> Any:
    """The loop over single outputs, the last ones in registers; returns how many it computed.

    Outputs go into `y` behind their history, `past` samples of float64, and rounded into
    `target`, which may be None.
    """
    near = min(order, NEAR)
    held = [f"y{j}" for j in range(1, near + 1)]
    lines = ["def advance(v, y, target, a, past):"]
    lines += [f"    a{j} = a[{j}]" for j in range(1, near + 1)]
    lines += [f"    y{j} = y[past - {j}]" for j in range(1, near + 1)]
    lines.append("    own = y[past:]")
    lines.append(f"    full = v.size // {near} * {near}")
    lines.append(f"    for at in range(0, full, {near}):")
    if order > near:
        lines.append("        subtract_far(v, y, a, past, at)")
    for step in range(near):
        terms = "".join(f" - a{j} * {held[j - 1]}" for j in range(near, 0, -1))
        lines.append(f"        {held[-1]} = v[at + {step}]{terms}")
        lines.append(f"        own[at + {step}] = {held[-1]}")
        lines.append(f"        put_number(target, at + {step}, {held[-1]})")
        held.insert(0, held.pop())
    lines.append("    return full")
    scope = {"subtract_far": _subtract_far, "put_number": put_number}
    exec("\n".join(lines), scope)
    return numba.njit(**FUSED)(scope["advance"])


@numba.njit(**INNER)
def _subtract_far(v: Any, y: Any, a: Any, past: int, at: int) -> None:
    """Subtract from NEAR values v, from `at` on, the terms of outputs more than NEAR steps back."""
    lower, upper = load_lanes(v, at, WIDTH), load_lanes(v, at + WIDTH, WIDTH)
    for j in range(a.size - 1, NEAR, -1):
        tap, left = spread(-a[j], lower), past + at - j
        lower = fma(tap, load_lanes(y, left, WIDTH), lower)
        upper = fma(tap, load_lanes(y, left + WIDTH, WIDTH), upper)
    store(v, at, lower)
    store(v, at + WIDTH, upper)


@numba.njit(**INNER)
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

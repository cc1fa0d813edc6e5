"""Checks of the laws of transfer maps: `check_laws`, and a check on steps of the first calls.

One thread never calls ``compose``: without a check a wrong one would show only on many threads, on
a GPU or over Dask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..core.algebra.transfer_map import Map, SegmentedMap, TransferMap
from ..core.arrays.array_types import to_host
from ..core.arrays.chunk import Chunk, CoefficientOperand
from ..core.arrays.validation import as_integer, as_real

WINDOWS, LENGTH = 16, 8
"""Number of sampled windows, and of the steps of each, a power of two."""
LONG = WINDOWS * LENGTH
"""Steps from which a chunk is checked although a shorter one was, which may have shown little."""
TRIES = 4
"""Largest number of sampled chunks, if no step of them can be judged."""
RTOL = 1e-6
"""Tolerance of floats, relative to the largest state of a window. They are evaluated in double."""

COMPOSED, ASSOCIATIVE, IDENTITY, LEFT_IDENTITY, RIGHT_IDENTITY = LAWS = (
    "apply(compose(f, g), x) == apply(g, apply(f, x))",
    "compose(compose(f, g), h) == compose(f, compose(g, h))",
    "apply(identity, x) == x",
    "compose(identity, f) == f",
    "compose(f, identity) == f",
)

State = tuple[Any, ...]


class _Window(NamedTuple):
    """Consecutive steps of a row: the operands of each step, and the state before the first."""

    steps: list[tuple[Any, ...]]
    state: State


class _Comparison(NamedTuple):
    """Two states that a law equates, after the first `length` steps of a window.

    Of several broken laws the first one is reported, and its shortest run of steps.
    """

    law: int
    length: int
    composed: State
    stepwise: State
    window: _Window
    scale: float


@lru_cache(maxsize=1024)
def _tries_left(transfer_map: TransferMap, dtypes: tuple[Any, ...], is_long: bool) -> list[int]:
    """Return the number of chunks that this process may still sample, in a list to change."""
    return [TRIES]


def check_laws_once(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: Sequence[Any],
    results: Sequence[Any],
    compile_compose: Callable[[TransferMap, Chunk], Any] | None,
) -> None:
    """Raise ValueError if a map breaks a law on sampled steps of the first solved chunk.

    `carry_in` and `results` are the states before the first step and after every step.
    `compile_compose` composes the steps of a short chunk, or raises TypeError; None if ``compose``
    was compiled with the other functions.
    """
    if isinstance(transfer_map, SegmentedMap):
        chunk = replace(chunk, operands=chunk.operands[1 + transfer_map.states :])
        transfer_map = transfer_map.inner
    arrays = [x for operand in chunk.operands for x in getattr(operand, "operands", [operand])]
    dtypes = chunk.dtype, *[array.dtype for array in arrays]
    tries = _tries_left(transfer_map, dtypes, chunk.steps >= LONG)
    if tries[0] == 0 or 0 in chunk.shape:
        return
    if compile_compose is not None:
        compile_compose(transfer_map, _first_steps(chunk))
    has_judged = _check(transfer_map, chunk.dtype, _windows(chunk, carry_in, results))
    tries[0] = 0 if has_judged else tries[0] - 1


def _first_steps(chunk: Chunk) -> Chunk:
    """Return at most two steps of at most two columns of the first row."""
    part = chunk.between(0, min(2, chunk.steps)).rows(0, 1)
    columns = min(2, chunk.shape[2])
    shape = 1, part.steps, columns
    return part.map_arrays(lambda array: np.ascontiguousarray(array[:, :, :columns]), shape)


def _windows(chunk: Chunk, carry_in: Sequence[Any], results: Sequence[Any]) -> Iterator[_Window]:
    """Yield the first steps of the first row, and windows at random positions."""
    generator = np.random.default_rng(0)
    outer, steps, inner = chunk.shape
    for number in range(WINDOWS):
        drawn = generator.integers(0, (outer, max(1, steps - LENGTH + 1), inner))
        row, first, column = map(int, drawn if number else (0, 0, 0))
        last = min(first + LENGTH, steps)
        start, stop = (steps - last, steps - first) if chunk.reverse else (first, last)
        part = chunk.rows(row, row + 1).between(start, stop)
        try:
            values = [_values(operand, part, column) for operand in part.operands]
        except Exception:  # as in _check, for the function of a coefficient
            continue
        before = carry_in
        if first:
            before = [result[:, stop if chunk.reverse else start - 1] for result in results]
        state = [_wide(x if x.ndim == 0 else x[row, column]) for x in before]
        if np.isfinite(state).all() and all(np.isfinite(value).all() for value in values):
            yield _Window(list(zip(*values, strict=True)), tuple(x[()] for x in state))


def _values(operand: Any, part: Chunk, column: int) -> np.ndarray:
    """Return an operand at the steps of a window; steps repeat if there are fewer than LENGTH."""

    def in_time(values: np.ndarray) -> np.ndarray:
        return np.resize(values[::-1] if part.reverse else values, LENGTH)

    def values(array: Any) -> np.ndarray:
        return in_time(_wide(array[0, :, column if array.shape[2] > 1 else 0]))

    if not isinstance(operand, CoefficientOperand):
        return values(operand)
    indices = in_time(np.arange(part.steps, dtype=np.int64) + operand.first)
    columns = [values(array) for array in operand.operands]
    function = operand.function.function
    return np.array([function(*arguments) for arguments in zip(indices, *columns, strict=True)])


def _wide(array: Any) -> np.ndarray:
    """Copy values to the host, in the widest dtype of their kind: numba also adds int8 as int64."""
    host = to_host(array)
    return host.astype(_widest(host.dtype)) if host.dtype.kind in "iufc" else host


def _widest(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"{dtype.kind}{16 if dtype.kind == 'c' else 8}")


def _check(transfer_map: TransferMap, dtype: np.dtype[Any], windows: Iterator[_Window]) -> bool:
    """Raise ValueError if a law does not hold; return whether any window could be judged."""
    comparisons: list[_Comparison] = []
    rounds = dtype.kind not in "iu"
    with np.errstate(all="ignore"):
        for window in windows:
            try:
                compared, is_associative = _compared(transfer_map, window, dtype)
            except Exception:  # math.log(0) raises in Python, but not in compiled code
                continue
            comparisons += compared
            rounds = rounds or not is_associative
        for comparison in sorted(comparisons, key=lambda comparison: comparison[:2]):
            if not _is_close(comparison, dtype, rounds):
                raise ValueError(_message(transfer_map, comparison))
    return bool(comparisons)


def _compared(
    transfer_map: TransferMap, window: _Window, dtype: np.dtype[Any]
) -> tuple[list[_Comparison], bool]:
    """Compare states by ``compose`` with those by ``apply``, and whether two orders agree."""

    def compose(earlier: State, later: State) -> State:
        return _cast(transfer_map.compose(earlier, later), dtype)

    def apply(step: State, state: State) -> State:
        return _cast(transfer_map.apply(step, state if len(state) > 1 else state[0]), dtype)

    maps = [_cast(transfer_map.lift(*operands), dtype) for operands in window.steps]
    states = list(accumulate(maps, lambda state, step: apply(step, state), initial=window.state))
    folded = list(accumulate(maps, compose))
    tree = maps
    while len(tree) > 1:
        tree = [compose(*pair) for pair in zip(tree[::2], tree[1::2], strict=True)]
    scale = max(abs(part) for state in states for part in state)
    laws = [(0, k + 1, folded[k]) for k in range(1, LENGTH)]
    laws.append((1, LENGTH, tree[0]))
    identity = _cast(transfer_map.identity, dtype)
    if identity == transfer_map.identity:  # -inf is no integer
        laws += [(2, 0, identity), (3, 1, compose(identity, maps[0]))]
        laws.append((4, 1, compose(maps[0], identity)))
    compared = [
        _Comparison(law, count, apply(composed, window.state), states[count], window, scale)
        for law, count, composed in laws
    ]
    compared = [c for c in compared if np.isfinite([*c.composed, *c.stepwise]).all()]
    return compared, folded[-1] == tree[0]


def _cast(values: Any, dtype: np.dtype[Any]) -> State:
    """Cast a map or a state as kernels do: integers modulo 2**bits, but floats to double."""
    wide = _widest(dtype)
    parts = values if isinstance(values, tuple) else (values,)
    if dtype.kind not in "iu":
        return tuple([wide.type(part) for part in parts])
    return tuple([np.asarray(part).astype(dtype).astype(wide)[()] for part in parts])


def _is_close(comparison: _Comparison, dtype: np.dtype[Any], rounds: bool) -> bool:
    if not rounds:
        return comparison.composed == comparison.stepwise
    if dtype.kind in "iu":  # one unit a step, or a share of the state for rounded coefficients
        most = comparison.length * (1 + float(comparison.scale) / 64)
    else:
        most = max(RTOL, 1000 * float(np.finfo(dtype).eps)) * comparison.scale
    pairs = zip(comparison.composed, comparison.stepwise, strict=True)
    wide = complex if dtype.kind == "c" else float
    return all(abs(wide(left) - wide(right)) <= most for left, right in pairs)


def _message(transfer_map: TransferMap, broken: _Comparison) -> str:
    def listed(values: Sequence[Any]) -> str:
        return ", ".join(map(str, values))

    steps = [f"lift({listed(step)})" for step in broken.window.steps[: max(1, broken.length)]]
    return (
        f"compose of {transfer_map.name} must keep the law {LAWS[broken.law]}; got "
        f"{listed(broken.composed)} against {listed(broken.stepwise)} from the state x = "
        f"{listed(broken.window.state)} by the steps {listed(steps)}. mgrec.check_laws tests "
        f"a map; TransferMap(..., check_laws=False) leaves this check of the first steps out"
    )


def check_laws(
    transfer_map: TransferMap,
    *operands: Callable[[np.random.Generator], Any],
    state: Callable[[np.random.Generator], Any] | None = None,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    samples: int = 200,
    seed: int = 0,
) -> None:
    """Test on random numbers that a transfer map obeys the laws of composition.

    Parameters
    ----------
    transfer_map : TransferMap
        Map to test.
    *operands : callable, ``(numpy.random.Generator) -> scalar``, optional
        Functions that draw the operands of ``lift``. The default draws standard normal numbers.
    state : callable, ``(numpy.random.Generator) -> state``, optional
        Function that draws a state, a tuple if the state is a tuple. The default draws a standard
        normal number.
    rtol, atol : float, optional
        Relative and absolute tolerance between two states that should be equal; 0 for exact maps.
    samples : int, optional
        Number of random triples of maps, each with a random state; at least 1.
    seed : int, optional
        Seed of the random generator.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `samples` is below 1, `seed` is below 0, `operands` are not those of ``lift``, or the
        state is a tuple and `state` is not given.
    AssertionError
        If a law does not hold. The message has the law and the operands of the counterexample.

    Notes
    -----
    Maps are compared by their effect on states, since one map may have several forms. The laws for
    maps f, g, h that ``lift`` returns, and a state x, are::

        apply(compose(f, g), x) == apply(g, apply(f, x))
        apply(compose(compose(f, g), h), x) == apply(compose(f, compose(g, h)), x)
        apply(compose(identity, f), x) == apply(f, x) == apply(compose(f, identity), x)
        apply(identity, x) == x

    Examples
    --------
    >>> import mgrec
    >>> mgrec.check_laws(mgrec.maps.affine)

    A wrong ``compose`` raises AssertionError:

    >>> wrong = mgrec.TransferMap(
    ...     lift=lambda s, t: (s, t),
    ...     compose=lambda earlier, later: (later[0], later[0] * earlier[1] + later[1]),
    ...     apply=lambda step, w: step[0] * w + step[1],
    ...     identity=(1.0, 0.0),
    ... )
    >>> mgrec.check_laws(wrong)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: apply(compose(f, g), x) == apply(g, apply(f, x)) does not hold: ...
    """
    if not isinstance(transfer_map, TransferMap):
        raise TypeError(f"transfer_map must be a TransferMap; got {transfer_map!r}")
    samples, seed = as_integer("samples", samples), as_integer("seed", seed)
    for name, value, least in (("samples", samples, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{name} must be {least} or more; got {value}")
    rtol, atol = as_real("rtol", rtol), as_real("atol", atol)
    generator = np.random.default_rng(seed)
    count = transfer_map.lift.__code__.co_argcount
    draws = operands or (_draw_normal,) * count
    if len(draws) != count:
        raise ValueError(f"lift takes {count} operands; got {len(draws)} functions to draw them")
    draw_state = _draw_normal if state is None else state
    for name, draw in (*[("operands", draw) for draw in draws], ("state", draw_state)):
        if not callable(draw):
            raise TypeError(f"{name} must be drawn by functions of a generator; got {draw!r}")
    if state is None:
        _check_state(transfer_map, draws)
    with np.errstate(all="ignore"):
        for _ in range(samples):
            drawn = [tuple(draw(generator) for draw in draws) for _ in range(3)]
            x = draw_state(generator)
            for law, left, right in _laws(transfer_map, [transfer_map.lift(*d) for d in drawn], x):
                if not np.allclose(left, right, rtol, atol, equal_nan=True):
                    raise AssertionError(
                        f"{law} does not hold: {left} against {right} for f, g, h lifted from "
                        f"{drawn} and x = {x}"
                    )


def _check_state(transfer_map: TransferMap, draws: Sequence[Callable[..., Any]]) -> None:
    """Raise ValueError unless the state that ``apply`` takes is a number."""
    generator = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        step = transfer_map.lift(*[draw(generator) for draw in draws])
        try:
            is_number = not isinstance(transfer_map.apply(step, _draw_normal(generator)), tuple)
        except (TypeError, IndexError):
            is_number = False
    if not is_number:
        raise ValueError(
            f"state must be given where the state is a tuple, as apply of {transfer_map.name} "
            f"takes it: pass state=, a function that draws one, such as "
            f"lambda generator: tuple(generator.standard_normal(2))"
        )


def _draw_normal(generator: np.random.Generator) -> Any:
    return np.float64(generator.standard_normal())


def _laws(transfer_map: TransferMap, maps: list[Map], x: Any) -> list[tuple[str, Any, Any]]:
    compose, apply = transfer_map.compose, transfer_map.apply
    identity = tuple(map(np.float64, transfer_map.identity))
    f, g, h = maps
    return [
        (COMPOSED, apply(compose(f, g), x), apply(g, apply(f, x))),
        (ASSOCIATIVE, apply(compose(compose(f, g), h), x), apply(compose(f, compose(g, h)), x)),
        (LEFT_IDENTITY, apply(compose(identity, f), x), apply(f, x)),
        (RIGHT_IDENTITY, apply(compose(f, identity), x), apply(f, x)),
        (IDENTITY, apply(identity, x), x),
    ]

"""Check the laws of a user's transfer map on steps of its first calls.

One thread never composes: a wrong ``compose`` shows on many threads, on a GPU or over Dask alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from ..core.algebra.segmented_map import SegmentedMap
from ..core.algebra.transfer_map import TransferMap
from ..core.arrays.array_types import is_capturing, to_host
from ..core.arrays.chunk import Chunk, CoefficientOperand

WINDOWS, LENGTH = 16, 8
"""Windows that are sampled, and steps of each, a power of two."""
LONG = WINDOWS * LENGTH
"""Steps of a chunk that is checked although a shorter one was: short calls often show little."""
TRIES = 4
"""Chunks that are sampled at most where no step can be judged."""
RTOL = 1e-6
"""Of floats, which are evaluated in double precision, relative to the largest state of a window."""

COMPOSED, ASSOCIATIVE, *IDENTITY = LAWS = (
    "apply(compose(f, g), x) == apply(g, apply(f, x))",
    "compose(compose(f, g), h) == compose(f, compose(g, h))",
    "apply(identity, x) == x",
    "compose(identity, f) == f",
    "compose(f, identity) == f",
)

State = tuple[Any, ...]


@dataclass
class _Record:
    """How far a map has been checked in this process."""

    is_checked: bool = False
    tries: int = 0


@dataclass(frozen=True)
class _Position:
    """Where a window lies in a chunk: its row, its steps in array order, and its column."""

    row: int
    start: int
    stop: int
    column: int


@dataclass(frozen=True)
class _Window:
    """Consecutive steps of a row: the operands of each, and the state before the first."""

    steps: list[tuple[Any, ...]]
    state: State


@dataclass(frozen=True)
class _Comparison:
    """Two states that a law equates, after the first `count` steps of a window."""

    law: str
    composed: State
    stepwise: State
    window: _Window
    count: int
    scale: float

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite([*self.composed, *self.stepwise]).all())


@lru_cache(maxsize=1024)
def _record(transfer_map: TransferMap, dtypes: tuple[Any, ...], is_long: bool) -> _Record:
    return _Record()


def check_laws_once(
    transfer_map: TransferMap,
    chunk: Chunk,
    carry_in: Sequence[Any],
    results: Sequence[Any],
    compile_compose: Callable[[TransferMap, Chunk], Any] | None = None,
) -> None:
    """Raise if a map breaks a law on sampled steps of the first chunk that is determined.

    Parameters
    ----------
    transfer_map : TransferMap
    chunk : Chunk
    carry_in, results : sequence of arrays
        The states before the first step, and after every step, one array a scalar.
    compile_compose : callable, ``(transfer_map, chunk)``, optional
        Composes the steps of a short chunk; None where ``compose`` was compiled with the rest.

    Raises
    ------
    TypeError
        ``compose`` cannot be compiled.
    ValueError
        A law does not hold.
    """
    if isinstance(transfer_map, SegmentedMap):
        chunk = replace(chunk, operands=chunk.operands[1 + transfer_map.states :])
        transfer_map = transfer_map.inner
    dtypes = chunk.dtype, *[array.dtype for operand in chunk.operands for array in _arrays(operand)]
    record = _record(transfer_map, dtypes, chunk.steps >= LONG)
    if record.is_checked or 0 in chunk.shape or is_capturing():
        return
    if compile_compose is not None:
        compile_compose(transfer_map, _first_steps(chunk))
    has_judged = _check(transfer_map, chunk.dtype, _windows(chunk, carry_in, results))
    record.tries += 1
    record.is_checked = has_judged or record.tries >= TRIES


def _arrays(operand: Any) -> tuple[Any, ...]:
    return operand.operands if isinstance(operand, CoefficientOperand) else (operand,)


def _first_steps(chunk: Chunk) -> Chunk:
    """Two steps, or one, of a row, or of two columns."""
    part = chunk.between(0, min(2, chunk.steps)).rows(0, 1)
    columns = min(2, chunk.shape[2])
    shape = 1, part.steps, columns
    return part.map_arrays(lambda array: np.ascontiguousarray(array[:, :, :columns]), shape)


def _windows(chunk: Chunk, carry_in: Sequence[Any], results: Sequence[Any]) -> Iterator[_Window]:
    """The first steps of the first row, and windows drawn from everywhere."""
    generator = np.random.default_rng(0)
    outer, steps, inner = chunk.shape
    for number in range(WINDOWS):
        drawn = generator.integers(0, (outer, max(1, steps - LENGTH + 1), inner))
        row, first, column = map(int, drawn if number else (0, 0, 0))
        last = min(first + LENGTH, steps)
        ends = (steps - last, steps - first) if chunk.reverse else (first, last)
        position = _Position(row, *ends, column)
        try:
            values = [_values(operand, position, chunk.reverse) for operand in chunk.operands]
        except Exception:  # as below, of the function of a coefficient
            continue
        before = carry_in
        if first:
            before = [_before(result, position, chunk.reverse) for result in results]
        state = [_wide(part if part.ndim == 0 else part[row, column]) for part in before]
        if np.isfinite(state).all() and all(np.isfinite(each).all() for each in values):
            yield _Window(list(zip(*values, strict=True)), tuple(part[()] for part in state))


def _before(result: Any, position: _Position, reverse: bool) -> Any:
    """The states of all rows before a window."""
    return result[:, position.stop if reverse else position.start - 1]


def _values(operand: Any, position: _Position, reverse: bool) -> np.ndarray:
    """An operand at the steps of a window; fewer steps than a window takes are repeated."""
    steps = slice(position.start, position.stop)

    def values(array: Any) -> np.ndarray:
        outer, length, inner = array.shape
        row, column = position.row if outer > 1 else 0, position.column if inner > 1 else 0
        line = _wide(array[row, steps if length > 1 else slice(1), column])
        return np.resize(line[::-1] if reverse else line, LENGTH)

    if not isinstance(operand, CoefficientOperand):
        return values(operand)
    indices = np.arange(position.start, position.stop, dtype=np.int64) + operand.first
    indices = np.resize(indices[::-1] if reverse else indices, LENGTH)
    further = [values(array) for array in operand.operands]
    function = operand.function.function
    return np.array([function(*arguments) for arguments in zip(indices, *further, strict=True)])


def _wide(array: Any) -> np.ndarray:
    """Values on the host in the widest dtype of their kind: numba, too, adds int8 as int64."""
    host = to_host(array)
    return host.astype(_widest(host.dtype)) if host.dtype.kind in "iufc" else host


def _widest(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"{dtype.kind}{16 if dtype.kind == 'c' else 8}")


def _check(transfer_map: TransferMap, dtype: np.dtype[Any], windows: Iterator[_Window]) -> bool:
    """Raise if a law does not hold; False where no window can be judged."""
    comparisons: list[_Comparison] = []
    rounds = dtype.kind not in "iu"
    with np.errstate(all="ignore"):
        for window in windows:
            try:
                compared, is_associative = _compared(transfer_map, window, dtype)
            except Exception:  # math.log(0) raises in Python, and not in compiled code
                continue
            comparisons += compared
            rounds = rounds or not is_associative
        for comparison in sorted(comparisons, key=_rank):
            if not _is_close(comparison, dtype, rounds):
                raise ValueError(_message(transfer_map, comparison))
    return bool(comparisons)


def _rank(comparison: _Comparison) -> tuple[int, int]:
    """The order in which broken laws are reported."""
    return LAWS.index(comparison.law), comparison.count


def _compared(
    transfer_map: TransferMap, window: _Window, dtype: np.dtype[Any]
) -> tuple[list[_Comparison], bool]:
    """States by ``compose`` against those by ``apply`` alone; whether two orders give one map."""

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
    laws = [(COMPOSED, folded[k], k + 1) for k in range(1, LENGTH)]
    laws.append((ASSOCIATIVE, tree[0], LENGTH))
    identity = _cast(transfer_map.identity, dtype)
    if identity == transfer_map.identity:  # -inf is no integer
        same = identity, compose(identity, maps[0]), compose(maps[0], identity)
        laws += zip(IDENTITY, same, (0, 1, 1), strict=True)
    compared = [
        _Comparison(law, apply(composed, window.state), states[count], window, count, scale)
        for law, composed, count in laws
    ]
    return [each for each in compared if each.is_finite], folded[-1] == tree[0]


def _cast(values: Any, dtype: np.dtype[Any]) -> State:
    """A map or a state as kernels carry it, integers modulo 2**bits, but floats in double."""
    wide = _widest(dtype)
    parts = values if isinstance(values, tuple) else (values,)
    if dtype.kind not in "iu":
        return tuple([wide.type(part) for part in parts])
    return tuple([np.asarray(part).astype(dtype).astype(wide)[()] for part in parts])


def _is_close(comparison: _Comparison, dtype: np.dtype[Any], rounds: bool) -> bool:
    if not rounds:
        return comparison.composed == comparison.stepwise
    if dtype.kind in "iu":  # a unit a step, or as much of the state by a rounded coefficient
        most = comparison.count * (1 + float(comparison.scale) / 64)
    else:
        most = max(RTOL, 1000 * float(np.finfo(dtype).eps)) * comparison.scale
    pairs = zip(comparison.composed, comparison.stepwise, strict=True)
    wide = complex if dtype.kind == "c" else float
    return all(abs(wide(left) - wide(right)) <= most for left, right in pairs)


def _message(transfer_map: TransferMap, broken: _Comparison) -> str:
    operands = ", ".join(
        f"lift({', '.join(map(str, step))})" for step in broken.window.steps[: max(1, broken.count)]
    )
    composed, stepwise, state = (
        ", ".join(map(str, each))
        for each in (broken.composed, broken.stepwise, broken.window.state)
    )
    return (
        f"compose of {transfer_map.name} must keep the law {broken.law}; got {composed} against "
        f"{stepwise} from the state x = {state} by the steps {operands}. mgrec.check_laws tests "
        f"a map; TransferMap(..., check_laws=False) leaves this check of the first steps out"
    )

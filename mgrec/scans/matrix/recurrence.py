"""The recurrence of matrix maps, the summary of a chunk, and the maps as maps of scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.algebra.transfer_map import TransferMap, affine
from ...core.arrays.chunk import Chunk, is_uncopied
from ...core.contract.kernels import Backend, ShardSolver
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...core.contract.scan import ElementChain
from ..maps import max_plus, min_plus
from ..summaries import FINE, REDO, rows_to_redo
from .maps import MatrixMap


@dataclass(frozen=True)
class MatrixSummary:
    """The map of a chunk: the images of n unit vectors, and of the zero of the algebra.

    `columns`, array (outer, inner, n + 1, n): images of the unit vectors without the vectors b, and
      last the image of zero with them.
    `exponents`, array (outer, inner, n + 1): image j of a unit vector is ``columns[j] *
      2**exponents[j]`` over (+, *).
    `is_reset`, array (outer, inner) of bool: whether a chunk has a mark, so that its last states do
      not depend on those before it.
    `limits`, array (outer, inner, n, n): image j is that of an infinite number in state j alone,
      after the first steps. Kernels of GPUs do not compute it.
    `is_short`: whether the first steps are all.
    `redo`, dict, (outer, inner) -> Chunk: rows to redo, with their operands: see
      :func:`with_rows_to_redo`.
    """

    columns: np.ndarray
    exponents: np.ndarray
    is_reset: np.ndarray
    limits: np.ndarray | None = None
    is_short: bool = False
    redo: dict[tuple[int, int], Chunk] = field(default_factory=dict)


_LEAST_STEPS, _LARGE = 1 << 13, 1 << 16
"""Fewest steps, and steps of all rows, of a speculative chunk in host memory: the time of a task."""
_LARGE_ON_GPU = 1 << 28
"""Fewest bytes of operands there. 2^24 steps of two states took 0.41 ms on an H200 to summarise, and
0.58 to determine."""
_GROWN, _NEAR_OVERFLOW = 256, 900
"""Exponents of products of matrices, and of offsets, from which states may overflow in a chunk."""
_COMPANION_GROWN = 6
"""Exponent of products of companion matrices whose rounding errors are as many times those of the loop."""


def with_rows_to_redo(recurrence: Any, chunk: Chunk, summary: MatrixSummary) -> MatrixSummary:
    """Return the summary with the rows whose states may overflow on their way, over (+, *).

    The loop decides which of them are inf or nan, and whether large terms cancel. After nan in an
    operand it decides nothing.
    """
    grown = _COMPANION_GROWN if recurrence.matrix_map.may_lose_digits else _GROWN
    if recurrence.matrix_map.algebra != ("+", "*"):
        return summary
    columns, offset = summary.columns[..., :-1, :], summary.columns[..., -1, :]
    with np.errstate(all="ignore"):
        growth = np.frexp(columns)[1] + summary.exponents[..., :-1, None]
        is_large = ~np.isfinite(columns) | ((columns != 0) & (growth > grown))
        is_redone = is_large.any((-1, -2)) | ~(abs(offset) < 2.0**_NEAR_OVERFLOW).all(-1)
    rows = rows_to_redo(chunk, np.where(is_redone, REDO, FINE))
    finite = {at: row for at, row in rows.items() if not any(map(_has_nan, row.operands[:2]))}
    return replace(summary, redo=finite)


def _has_nan(array: np.ndarray) -> bool:
    return bool(np.isnan(array).any())


@dataclass(frozen=True, kw_only=True)
class MatrixRecurrence(ElementChain):
    """The recurrence w = M ⊗ w ⊕ b, whose operands are M and b, with marks and states of resets."""

    family: ClassVar[str] = "scans.matrix"
    matrix_map: MatrixMap

    @property
    def is_contractive(self) -> bool:
        return self.matrix_map.algebra == ("+", "*")

    def may_speculate(self, shape: Sequence[float], backend: Backend) -> bool:
        steps, size = shape[self.axis], prod(shape[:-1])
        if backend.engine == "cpu":
            return self.is_contractive and steps >= _LEAST_STEPS and size >= _LARGE
        operand_bytes = 8 * size * self.numbers * (self.numbers + 1)
        pays = operand_bytes >= _LARGE_ON_GPU and self.method != "p-scheme"
        return self.is_contractive and backend.engine == "cuda" and pays

    def solver_arguments(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        # States in host memory are known when a solver is prepared.
        return [*operands, *(x for x in initial if not isinstance(x, np.ndarray))]

    @property
    def has_shards(self) -> bool:
        is_read_once = self.matrix_map.structure == "general" and self.matrix_map.n in (2, 4)
        return self.is_contractive and is_read_once and self.method != "p-scheme"

    def prepare_shard(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> ShardSolver | None:
        prepare, chunk = backend.kernels(self.family).prepare_shard, self.lay_out(inputs, shape)
        if prepare is None or not self.has_shards:
            return None
        if not all(map(is_uncopied, chunk.operands, inputs.blocks)):
            return None
        before = initial[0].reshape(-1) if initial else self.first_state()
        return prepare(self, chunk, before)


def propagate(recurrence: MatrixRecurrence, summary: MatrixSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk, from those before it, without rows to redo."""
    images, offset = summary.columns[..., :-1, :], summary.columns[..., -1, :]
    algebra = recurrence.matrix_map.algebra
    zero = recurrence.matrix_map.zero
    # nan times zero would be nan.
    state = np.where(summary.is_reset[..., None], zero, carry_in)[..., None]
    with np.errstate(all="ignore"):
        if algebra == ("+", "*"):
            exponents = np.clip(summary.exponents[..., :-1, None], -4400, 4400).astype(np.int32)
            image, image_exponent = np.frexp(images)
            number, exponent = np.frexp(state)
            products: Any = np.ldexp(image * number, image_exponent + exponent + exponents)
        else:
            products = images + state
        if summary.limits is not None and not np.isfinite(carry_in).all():
            is_infinite = ~np.isfinite(state) & (state != zero)
            products = np.where(is_infinite, _products_with_infinity(recurrence, summary, state), products)
        if algebra == ("+", "*"):
            return products.sum(-2) + offset
        terms = np.concatenate([products, offset[..., None, :]], axis=-2)
        if algebra == ("max", "+"):
            return terms.max(-2)
        if algebra == ("min", "+"):
            return terms.min(-2)
        return log_sum_exp(terms, -2)


def _products_with_infinity(recurrence: MatrixRecurrence, summary: MatrixSummary, state: np.ndarray) -> Any:
    """Return what infinite states and nan contribute to the states after a chunk, as in the loop.

    The loop has nan from the step on at which infinite terms of both signs meet, or a zero. What is
    infinite after the first steps has the signs of the product of all matrices.
    """
    matrix_map, limits = recurrence.matrix_map, summary.limits
    assert limits is not None
    multiply = np.multiply if matrix_map.algebra == ("+", "*") else np.add
    if not summary.is_short:
        is_nan, is_zero = np.isnan(limits), limits == matrix_map.zero
        if matrix_map.structure != "diagonal":
            is_nan = is_nan.any(-1, keepdims=True)
        products = multiply(summary.columns[..., :-1, :], matrix_map.infinity)
        limits = np.where(is_nan, np.nan, np.where(is_zero, matrix_map.zero, products))
    return np.where(limits == matrix_map.zero, matrix_map.zero, multiply(limits, state))


def log_sum_exp(terms: Any, axis: int) -> Any:
    """Return the logarithm of the sum of the exponentials along an axis."""
    with np.errstate(all="ignore"):
        most = terms.max(axis, keepdims=True)
        shift = np.where(np.isfinite(most), most, 0.0)
        return np.log(np.exp(terms - shift).sum(axis)) + shift.squeeze(axis)


DIAGONAL_MAPS = {("+", "*"): affine, ("max", "+"): max_plus, ("min", "+"): min_plus}
"""The map of one state of a diagonal map, by the operators."""


@lru_cache
def scalar_map(matrix_map: MatrixMap) -> TransferMap:
    """Return the map whose operands are the entries of M, row by row, and those of b.

    M is general, and the operators are those of `DIAGONAL_MAPS`.
    """
    indices = range(matrix_map.n)
    earlier = [[f"a{i}{j}" for j in indices] for i in indices], [f"b{i}" for i in indices]
    later = [[f"c{i}{j}" for j in indices] for i in indices], [f"d{i}" for i in indices]
    return _compiled(matrix_map, earlier, later)


Names = tuple[list[list[str]], list[str]]
"""Names of the entries of M and of b."""


def _compiled(matrix_map: MatrixMap, earlier: Names, later: Names) -> TransferMap:
    """Return the map of functions that are written out, without loops over entries."""
    indices = range(matrix_map.n)

    def total(row: list[str], column: list[str], last: str | None) -> str:
        terms = [_product(matrix_map, *pair) for pair in zip(row, column, strict=True)]
        return _sum(matrix_map, terms if last is None else [*terms, last])

    columns = [[row[j] for row in earlier[0]] for j in indices]
    composed = [total(row, column, None) for row in later[0] for column in columns]
    composed += [total(later[0][i], earlier[1], later[1][i]) for i in indices]
    states = [f"w{i}" for i in indices]
    applied = [total(earlier[0][i], states, earlier[1][i]) for i in indices]
    first, second = _flat(earlier), _flat(later)
    code = f"""
def lift({first}):
    return {first}

def compose(earlier, later):
    {first} = earlier
    {second} = later
    return {", ".join(composed)}

def apply(step, state):
    {first} = step
    {", ".join(states)} = state
    return {", ".join(applied)}
"""
    scope: dict[str, Any] = {"np": np, "__name__": "mgrec"}
    exec(code, scope)
    identity = np.full((matrix_map.n, matrix_map.n), matrix_map.zero)
    np.fill_diagonal(identity, matrix_map.one)
    return TransferMap(
        scope["lift"],
        scope["compose"],
        scope["apply"],
        (*identity.ravel().tolist(), *[matrix_map.zero] * matrix_map.n),
        matrix_map.name.replace("(", "").replace(")", ""),
        check_laws=False,
    )


def _flat(names: Names) -> str:
    return ", ".join([name for row in names[0] for name in row] + names[1])


def _product(matrix_map: MatrixMap, x: str, y: str) -> str:
    return f"{x} * {y}" if matrix_map.algebra == ("+", "*") else f"({x} + {y})"


def _sum(matrix_map: MatrixMap, terms: list[str]) -> str:
    if matrix_map.algebra[0] == "+":
        return " + ".join(terms)
    function = {"max": "np.maximum", "min": "np.minimum"}[matrix_map.algebra[0]]
    result = terms[0]
    for term in terms[1:]:
        result = f"{function}({result}, {term})"
    return result

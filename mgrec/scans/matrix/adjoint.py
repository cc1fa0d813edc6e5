"""Adjoint of scans of matrix maps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...core.arrays.array_types import in_one_memory
from ...core.arrays.chunk import shape_of
from ...core.arrays.interop import library_of
from ...solve.adjoint import (
    Steps,
    adjoint_function,
    along,
    as_required,
    as_result,
    selected,
    shifted,
    sum_of_outer_products,
    summed,
)
from ...solve.functions import exp, full_like, largest, where
from ...solve.rules import Rule, broadcast_shapes, common_dtype
from .. import functions
from .arguments import check_two_operands
from .maps import ALGEBRAS, MatrixMap, matrix


def matrix_gradients(
    matrix_map: MatrixMap,
    grad: Any,
    w: Any,
    *operands: Any,
    initial: Any,
    axis: int,
    reverse: bool,
    reset: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, ...]:
    """Return the gradients of M, b and the initial states.

    Let J_i be the derivative of w_i by w_{i-1}: M_i over (+, *), and over (logsumexp, +) the
    weights of the terms M_i + w_{i-1}, as softmax has them. Over (max, +) the weights of the
    largest terms are equal, and those of others 0. The adjoint is
    λ_i = g_i + J_{i+1}ᵀ·λ_{i+1}.
    """
    check_two_operands(matrix_map, operands)
    _check_structure(matrix_map)
    M, b = (as_required(name, value) for name, value in zip("Mb", operands, strict=True))
    (grad, w), initial = as_result("states", grad, w), as_required("initial", initial)
    if library_of(grad) is None:
        (M,) = in_one_memory([("grad", grad), ("b", b)], [("M", M)])
    named = {"M": M, "b": b, "initial": initial}
    wanted, steps = selected(of, named, [*named]), Steps.of(w[..., 0], axis, reverse, reset)
    before = steps.of_vectors.before(w, initial)
    is_linear, is_general = matrix_map.algebra == ("+", "*"), matrix_map.structure == "general"
    slopes, of_vectors = (M, None) if is_linear else _weights(matrix_map, M, b, before, w)
    transposed = slopes.swapaxes(-1, -2) if is_general else slopes
    axis_of_slopes = along(slopes[(..., *[0] * len(matrix_map.matrix_shape))], w.ndim - 1, steps.axis)
    adjoint = functions.scan(
        matrix(matrix_map.n, structure=matrix_map.structure),
        transposed if axis_of_slopes is None else shifted(transposed, axis_of_slopes, steps.forward),
        grad,
        initial=np.zeros(matrix_map.n),
        **steps.backward,
    )

    def of_matrices() -> Any:
        if is_linear and is_general:
            return sum_of_outer_products(adjoint, before, M)
        return (adjoint[..., None] if is_general else adjoint) * (before if is_linear else slopes)

    def of_initial() -> Any:
        matrices = transposed if axis_of_slopes is None else steps.first(transposed, axis_of_slopes)
        of_first = steps.first(adjoint)
        row = (matrices * of_first[..., None, :]).sum(-1) if is_general else matrices * of_first
        return steps.of_vectors.sum_at_starts(row)

    of_b = adjoint if of_vectors is None else lambda: adjoint * of_vectors
    return summed({"M": of_matrices, "b": of_b, "initial": of_initial}, named, wanted)


def _check_structure(matrix_map: MatrixMap) -> None:
    """Raise NotImplementedError for structures without gradients."""
    if matrix_map.structure not in ("general", "diagonal"):
        raise NotImplementedError(
            f"gradients need a general or a diagonal matrix; got a {matrix_map.structure} matrix"
        )


def _weights(matrix_map: MatrixMap, M: Any, b: Any, before: Any, w: Any) -> tuple[Any, Any]:
    """Return the derivatives of w by the states before each step, and by b."""
    is_general = matrix_map.structure == "general"
    terms = M + (before[..., None, :] if is_general else before)
    if matrix_map.algebra[0] == "logsumexp":
        # States without a possible path have no gradient.
        finite = where(w == -np.inf, full_like(w, 0), w)
        return exp(terms - (finite[..., None] if is_general else finite)), exp(b - finite)
    sign = 1.0 if matrix_map.algebra[0] == "max" else -1.0
    terms, b = sign * terms, sign * b
    best = largest(terms) if is_general else terms
    # w may have been rounded.
    best = where(best < b, b + 0 * best, best)
    is_best, is_vector = terms == (best[..., None] if is_general else best), b == best
    count = (is_best.sum(-1) if is_general else 1 * is_best) + 1 * is_vector
    return is_best / (count[..., None] if is_general else count), is_vector / count


@adjoint_function
def scan_of_matrices(
    *,
    M: Any,
    b: Any,
    initial: Any,
    n: int,
    algebra: int,
    structure: str,
    axis: int,
    reverse: bool,
    reset: Any,
) -> Any:
    """Solve a scan of a matrix map, given by its attributes."""
    matrix_map = matrix(n, ALGEBRAS[algebra], structure)
    return functions.scan(matrix_map, M, b, initial=initial, axis=axis, reverse=reverse, reset=reset)


def solve_matrices(
    matrix_map: MatrixMap, operands: Sequence[Any], initial: Any, options: dict[str, Any]
) -> Any:
    """Call :func:`mgrec.scan` for arrays that torch or jax differentiates."""
    check_two_operands(matrix_map, operands)
    _check_structure(matrix_map)
    if options["axis"] >= 0:
        counts = (len(matrix_map.matrix_shape), 1)
        options["axis"] -= max(len(shape_of(x)) - count for x, count in zip(operands, counts, strict=True))
    return scan_of_matrices(
        M=operands[0],
        b=operands[1],
        initial=initial,
        n=matrix_map.n,
        algebra=matrix_map.algebra_number,
        structure=matrix_map.structure,
        **options,
    )


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    M, b = arguments["M"], arguments["b"]
    count = 2 if arguments["structure"] == "general" else 1
    shape = broadcast_shapes(M.shape[: len(M.shape) - count], b.shape[:-1])
    dtype = common_dtype(M, b, arguments["initial"])
    return [((*shape, arguments["n"]), np.result_type(dtype, np.float32))]


def _gradients(grad: Any, grad_zf: Any, w: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    matrix_map = matrix(arguments["n"], ALGEBRAS[arguments["algebra"]], arguments["structure"])
    options = {name: arguments[name] for name in ("initial", "axis", "reverse", "reset")}
    return matrix_gradients(matrix_map, grad, w, arguments["M"], arguments["b"], **options, of=of)


RULES = [
    Rule(
        scan_of_matrices,
        _gradients,
        ("M", "b", "initial"),
        {
            "n": ("int", 0),
            "algebra": ("int", 0),
            "structure": ("str", "general"),
            "axis": ("int", -1),
            "reverse": ("bool", False),
        },
        _outlines,
        axes=lambda arguments: len(_outlines(arguments)[0][0]) - 1,
        constants=("reset",),
        takes_group=True,
    )
]

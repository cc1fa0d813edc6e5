"""The recurrence of matrix maps, and the summary of a chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.contract.scan import ElementChain
from .maps import MatrixMap


@dataclass(frozen=True)
class MatrixSummary:
    """The map of a chunk: the images of n unit vectors, and of the zero of the algebra.

    Attributes
    ----------
    columns : array (outer, inner, n + 1, n)
        Images of the unit vectors without the vectors b, and last the image of zero with them.
    exponents : array (outer, inner, n + 1)
        Image j of a unit vector is ``columns[j] * 2**exponents[j]`` over (+, *).
    is_reset : array (outer, inner) of bool
        Whether a chunk has a mark, so that its last states do not depend on those before it.
    """

    columns: np.ndarray
    exponents: np.ndarray
    is_reset: np.ndarray


@dataclass(frozen=True, kw_only=True)
class MatrixRecurrence(ElementChain):
    """The recurrence w = M ⊗ w ⊕ b, whose operands are M and b, with marks and states of resets."""

    family: ClassVar[str] = "scans.matrix"
    methods: ClassVar[tuple[str, ...]] = ("auto",)
    matrix_map: MatrixMap


def propagate(
    recurrence: MatrixRecurrence, summary: MatrixSummary, carry_in: np.ndarray
) -> np.ndarray:
    """Return the states after a chunk, from those before it."""
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
            products = np.ldexp(image * number, image_exponent + exponent + exponents)
            return products.sum(-2) + offset
        terms: Any = np.concatenate([images + state, offset[..., None, :]], axis=-2)
        if algebra == ("max", "+"):
            return terms.max(-2)
        if algebra == ("min", "+"):
            return terms.min(-2)
        return log_sum_exp(terms, -2)


def log_sum_exp(terms: Any, axis: int) -> Any:
    """Return the logarithm of the sum of the exponentials along an axis."""
    with np.errstate(all="ignore"):
        most = terms.max(axis, keepdims=True)
        shift = np.where(np.isfinite(most), most, 0.0)
        return np.log(np.exp(terms - shift).sum(axis)) + shift.squeeze(axis)

"""The transfer map of w = s·w + t."""

from __future__ import annotations

from typing import Any

import numpy as np

from .transfer_map import Capabilities, Map, TransferMap


def _affine_lift(s: Any, t: Any) -> Map:
    return s, t


def _affine_compose(earlier: Map, later: Map) -> Map:
    s, t = later
    return s * earlier[0], s * earlier[1] + t


def _affine_apply(step: Map, w: Any) -> Any:
    s, t = step
    return s * w + t


affine = TransferMap(
    _affine_lift,
    _affine_compose,
    _affine_apply,
    (1, 0),
    "affine",
    check_laws=False,
    capabilities=Capabilities(
        casts_operands=True, is_affine=True, redoes_rows=True, composes_cheaply=True
    ),
)


def _signed_lift(s: Any, t: Any) -> Map:
    return s, np.where(s + s == s, s, np.sign(s)), t


def _signed_compose(earlier: Map, later: Map) -> Map:
    s, sign, _ = later
    return s * earlier[0], sign * earlier[1], _signed_apply(later, earlier[2])


def _signed_apply(step: Map, w: Any) -> Any:
    s, sign, t = step
    return np.where(w + w == w, sign, s) * w + t


signed_affine = TransferMap(
    _signed_lift,
    _signed_compose,
    _signed_apply,
    (1, 1, 0),
    "affine",
    check_laws=False,
    capabilities=Capabilities(casts_operands=True, composes_cheaply=True),
)
"""The map of a real w = s·w + t whose states of 0 and inf are those of the loop.

In addition to the product of the coefficients s, which may overflow or underflow, it holds the
product of their signs, in which 0, inf and nan are kept. It is the coefficient of
states of 0 and inf.
"""

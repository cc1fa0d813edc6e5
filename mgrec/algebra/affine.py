"""The transfer map of w = s·w + t."""

from __future__ import annotations

from typing import Any

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

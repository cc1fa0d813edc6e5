"""Adjoint of summed-area tables: the table of the gradient, from the last corner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...solve.adjoint import sum_to
from ...solve.functions import flip
from ...solve.rules import Rule, numpy_dtype
from . import api


def _compose(
    grad: Any, grad_zf: Any, table: Any, arguments: dict[str, Any], of: Sequence[str]
) -> tuple[Any]:
    axes = tuple(arguments["axes"])
    sums = api.summed_area_table(_reversed(grad, axes), axes)
    return (sum_to(_reversed(sums, axes), arguments["x"]),)


def _reversed(array: Any, axes: Sequence[int]) -> Any:
    for axis in axes:
        array = flip(array, axis)
    return array


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x = arguments["x"]
    return [(x.shape, np.cumsum(np.empty(0, numpy_dtype(x))).dtype)]


RULES = [Rule(api.summed_area_table, _compose, ("x",), {"axes": ("int[]", (-2, -1))}, _outlines)]

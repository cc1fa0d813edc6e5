"""Slopes of cubic splines are SciPy's, on every kind of array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("ends", ["not-a-knot", "natural"])
@pytest.mark.parametrize("kind", ["numpy", "dask", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_slopes_are_scipys(load: Any, kind: str, ends: str) -> None:
    given = ["--size", "500", "--array", kind, "--ends", ends]
    assert load("applications.spline").main(given) < 1e-13


def test_the_ends_matter(load: Any) -> None:
    spline = load("applications.spline")
    x, y = spline.draw(50)
    difference = np.abs(spline.slopes(x, y, "natural") - spline.slopes(x, y, "not-a-knot"))
    assert difference[0] > 1e-3 > difference[25]

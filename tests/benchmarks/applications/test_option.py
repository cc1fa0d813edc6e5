"""Prices of options are those of the closed formula, to second order, on every kind of array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("kind", ["numpy", "dask", pytest.param("cupy", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("option", ["call", "put"])
def test_half_as_long_steps_have_a_quarter_of_the_error(load: Any, kind: str, option: str) -> None:
    given = ["--strikes", "6", "--array", kind, "--option", option]
    main = load("applications.option").main
    coarse = main([*given, "--size", "301", "--steps", "10"])
    fine = main([*given, "--size", "601", "--steps", "20"])
    assert fine < 4e-3
    assert 3.6 < coarse / fine < 4.4


def test_the_formula_has_known_prices(load: Any) -> None:
    """Of a volatility of 20 % and a rate of 5 %, at a spot and a strike of 100."""
    at = np.array([100.0]), np.array([100.0]), np.array([0.2])
    formula = load("applications.option").formula
    assert formula(*at, "call").round(4) == 10.4506
    assert formula(*at, "put").round(4) == 5.5735


def test_arrays_of_dask_have_the_prices_of_numpy(load: Any) -> None:
    run = load("applications.option").run
    prices = [run(301, 5, 6, kind, "call")[1] for kind in ("numpy", "dask")]
    np.testing.assert_allclose(*prices, rtol=0, atol=1e-12)


def test_steps_without_a_start_oscillate(load: Any) -> None:
    option = load("applications.option")
    errors = []
    for half_steps in (0, option.HALF_STEPS):
        spots, found, _ = option.run(1201, 3, 10, "numpy", "call", half_steps)
        wanted = option.formula(spots, *option.smile(3), "call")
        errors.append(np.abs(found - wanted).max())
    assert errors[0] > 10 * errors[1]


def test_a_picture_is_drawn(load: Any, tmp_path: Path) -> None:
    picture = tmp_path / "prices.png"
    given = ["--size", "201", "--strikes", "3", "--steps", "4", "--out", str(picture)]
    load("applications.option").main(given)
    assert picture.stat().st_size > 5000

"""Programs around one call are right on every kind of array, and their pictures are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
each_kind = pytest.mark.parametrize("kind", ["numpy", "dask", pytest.param("cupy", marks=pytest.mark.gpu)])


@each_kind
def test_a_wave_decays_exactly(load: Any, kind: str) -> None:
    deviation = load("applications.adi").main(["--size", "40", "--steps", "3", "--array", kind])
    assert deviation < 1e-14


def test_other_fields_are_no_waves(load: Any) -> None:
    """What the check compares with is wrong for them."""
    adi = load("applications.adi")
    field, factor = adi.wave(40, 3, 5)
    field[7, 9] += 1e-6
    found, _ = adi.run(field, "numpy", 3)
    assert np.abs(found - factor**3 * field).max() > 1e-8


@each_kind
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


def test_steps_without_a_start_oscillate(load: Any) -> None:
    option = load("applications.option")
    errors = []
    for half_steps in (0, option.HALF_STEPS):
        spots, found, _ = option.run(1201, 3, 10, "numpy", "call", half_steps)
        wanted = option.formula(spots, *option.smile(3), "call")
        errors.append(np.abs(found - wanted).max())
    assert errors[0] > 10 * errors[1]


@each_kind
@pytest.mark.parametrize("ends", ["not-a-knot", "natural"])
def test_slopes_are_scipys(load: Any, kind: str, ends: str) -> None:
    given = ["--size", "500", "--array", kind, "--ends", ends]
    assert load("applications.spline").main(given) < 1e-13


def test_the_ends_of_a_spline_matter(load: Any) -> None:
    spline = load("applications.spline")
    x, y = spline.draw(50)
    difference = np.abs(spline.slopes(x, y, "natural") - spline.slopes(x, y, "not-a-knot"))
    assert difference[0] > 1e-3 > difference[25]


@pytest.mark.parametrize(
    ("name", "given"), [("adi", "--size 40 --steps 2"), ("option", "--size 201 --strikes 3 --steps 4")]
)
def test_a_picture_is_drawn(load: Any, tmp_path: Path, name: str, given: str) -> None:
    picture = tmp_path / "picture.png"
    load(f"applications.{name}").main([*given.split(), "--out", str(picture)])
    assert picture.stat().st_size > 5000

"""A program around one call is right on every kind of array, and its picture is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("kind", ["numpy", "dask", pytest.param("cupy", marks=pytest.mark.gpu)])
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


def test_a_picture_is_drawn(load: Any, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    load("applications.adi").main(["--size", "40", "--steps", "2", "--out", str(picture)])
    assert picture.stat().st_size > 5000

"""Direct form I against the transposed form and SciPy, on a machine without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import signal

from mgrec.filters.cascade import Cascade
from mgrec.filters.cuda.program import direct_coefficients, gains, is_direct

FILTERS = {
    "8 sections": np.array([[1, 0.5, 0.1, 1, -0.5, 0.2]] * 8),
    "low-pass": signal.butter(8, 0.2, output="sos"),
    "high-pass": signal.butter(5, 0.3, "high", output="sos"),
    "gains of both signs": signal.ellip(6, 1, 60, 0.4, output="sos") * [-3, -3, -3, 1, 1, 1],
}
SINGLE, DOUBLE = np.dtype("f4"), np.dtype("f8")


@pytest.mark.parametrize("name", FILTERS)
def test_gains_and_ratios_make_up_the_sections(name: str) -> None:
    cascade = Cascade.of_sections(FILTERS[name])
    ratios, _ = direct_coefficients(cascade)
    gain = gains(cascade)
    ratios[:, 0] = 1
    np.testing.assert_allclose(
        ratios * (gain[:-1] / gain[1:])[:, None], cascade.float64_coefficients[0], rtol=1e-14
    )


@pytest.mark.parametrize(
    ("sos", "steps", "dtype"),
    [
        (FILTERS["low-pass"], 63, SINGLE),
        (FILTERS["low-pass"], 1000, DOUBLE),
        (FILTERS["low-pass"][:1], 1000, SINGLE),
        ([[1, 2, 1, 1, 0.5, 0], [0, 1, 0, 1, 0.5, 0]], 1000, SINGLE),
        ([[1e-200, 2, 1, 1, 0.5, 0], [1e-200, 1, 0, 1, 0.5, 0]], 1000, SINGLE),
        ([[1, np.nan, 1, 1, 0.5, 0], [1, 1, 0, 1, 0.5, 0]], 1000, SINGLE),
        (np.tile(FILTERS["8 sections"], (3, 1)), 1000, SINGLE),
    ],
    ids=["few steps", "float64", "one", "b_0 = 0", "tiny gains", "nan", "many"],
)
def test_other_filters_are_walked_in_the_transposed_form(sos: Any, steps: int, dtype: Any) -> None:
    cascade = Cascade.of_sections(np.asarray(sos, float))
    assert not is_direct(cascade, steps, dtype, DOUBLE)

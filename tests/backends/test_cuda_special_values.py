"""nan and inf stand where the plain loop has them, on a GPU too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import KINDS, draw, loop, small_layout, solve

from mgrec.phases.chunk import Chunk
from mgrec.recurrences import maps

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]


def hostile(rng: Any, shape: Any, kind: str) -> tuple[Any, Any, Any]:
    """Draw operands whose products overflow or underflow although the loop may stay finite."""
    s, t = draw(rng, shape, "float32"), draw(rng, shape, "float32")
    entry = draw(rng, (shape[0], shape[2]), "float32")
    third = shape[1] // 3
    part = slice(third, shape[1] // 2)
    if kind == "overflowing product of a zero state":
        s[:, part], t[:, part] = 10.0, 0.0
        s[:, third] = 0.0
    elif kind == "nan":
        t[:, third] = np.nan
    elif kind == "inf, later zero":
        t[:, third] = np.inf
        s[:, shape[1] // 2] = 0.0
    elif kind == "inf in one row":
        t[shape[0] // 2, third, shape[2] // 2] = np.inf
    elif kind == "inf at an end":
        t[:, 3] = np.inf
    elif kind == "inf everywhere":
        t[:] = np.inf
    elif kind == "inf before the first step":
        entry[:] = -np.inf
    elif kind == "large entry decays":
        s[:], t[:], entry[:] = 0.9, 0.0, 1e30
    elif kind == "growth to infinity":
        s[:, part] = 1.5
    elif kind == "growth stopped by a zero":
        s[:, part] = 1e4
        s[:, third + 25] = 0.0
    return s, t, entry


HOSTILE = [
    "overflowing product of a zero state", "nan", "inf, later zero", "inf in one row",
    "inf at an end", "inf everywhere", "inf before the first step", "large entry decays",
    "growth to infinity", "growth stopped by a zero",
]  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 60_001, 1), (40, 1700, 1), (1, 3000, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_stand_where_the_loop_has_them(shape: Any, reverse: bool, kind: str) -> None:
    s, t, entry = hostile(np.random.default_rng(7), shape, kind)
    (wanted,) = loop(maps.affine, [s, t], [entry], shape, reverse)
    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), shape, np.dtype("f4"), reverse)
    for layout in (None, small_layout(KINDS[1 if shape[2] == 1 else 4], shape, "f4", reverse)):
        (got,) = solve(maps.affine, chunk, [entry], layout)
        (again,) = solve(maps.affine, chunk, [entry], layout, 11)
        np.testing.assert_array_equal(again.view(np.uint8), got.view(np.uint8))
        for mark in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(mark(got), mark(wanted))
        finite = np.isfinite(wanted)
        # 36 steps of 2**-24 each in a thread's part, as many again in the tile: relative to
        # the terms. Of 40 rows that grow the one whose first terms cancel most loses 3e-5.
        np.testing.assert_allclose(got[finite], wanted[finite], rtol=2e-4, atol=3e-6)

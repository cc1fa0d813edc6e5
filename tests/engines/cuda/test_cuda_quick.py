"""The quick side of a map, in chains: it must leave every odd step to the exact one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import KINDS, loop, small_layout, solve

from mgrec.core.arrays.chunk import Chunk
from mgrec.scans import maps

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]

CASES = ["plain", "from infinity", "fixed at 0", "fixed at infinity", "scaled", "poles", "nan"]


def case(name: str, shape: Any) -> tuple[list[Any], float]:
    """Coefficients and entry."""
    rng = np.random.default_rng(21)
    a, b, c, d = (rng.uniform(0.5, 2, shape) for _ in range(4))
    step = np.arange(shape[1])[None, :, None] + np.zeros(shape)
    power = 2.0 ** rng.integers(-90, 91, shape)
    zero = 0 * a
    return {
        "plain": ([a, b, c, d], 0.7),
        "from infinity": ([a, b, c, d], np.inf),
        "fixed at 0": ([2 + zero, zero, 1 + zero, 1 + zero], 0.0),
        "fixed at infinity": ([1 + zero, zero, zero, 2 + zero], np.inf),
        "scaled": ([a * power, b * power, c * power, d * power], 0.7),
        "poles": ([a, b, np.where(step % 97 == 5, 0, c), np.where(step % 97 == 5, 0, d)], 0.7),
        "nan": ([a, np.where(step == shape[1] // 2, np.nan, b), c, d], 0.7),
    }[name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("name", CASES)
def test_chains_meet_every_odd_step(name: str, kind: str, dtype: str) -> None:
    for rows, steps, reverse in ((1, 5003, False), (3, 1801, True), (1, 768, True)):
        shape = (rows, steps, 1)
        operands, start = case(name, shape)
        operands = [x.astype(dtype) for x in operands]
        carry_in = np.full((rows, 1), start)
        chunk = Chunk(tuple(map(cupy.asarray, operands)), shape, np.dtype(dtype), reverse)
        with np.errstate(all="ignore"):
            wide = [x.astype("f8") for x in operands]
            wanted = loop(maps.mobius, wide, [carry_in], shape, reverse)[0].astype(dtype)
        for chains in (1, 3):
            layout = replace(small_layout(kind, shape, dtype, reverse), chains=chains)
            got = solve(maps.mobius, chunk, [carry_in.astype(dtype)], layout)[0]
            np.testing.assert_allclose(got, wanted, rtol=300 * np.finfo(dtype).eps, atol=0)

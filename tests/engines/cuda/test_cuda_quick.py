"""The quick side of a map, in chains: it must leave every odd step to the exact one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cuda_cases import KINDS, loop_in_float64, mobius_case, small_layout, solve

from mgrec.core.arrays.chunk import Chunk
from mgrec.scans import maps

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cupy.is_available(), reason="no CUDA GPU"),
]

CASES = ["plain", "from infinity", "fixed at 0", "fixed at infinity", "scaled", "poles", "nan"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("name", CASES)
def test_chains_meet_every_odd_step(name: str, kind: str, dtype: str) -> None:
    for rows, steps, reverse in ((1, 5003, False), (3, 1801, True), (1, 768, True)):
        shape = (rows, steps, 1)
        operands, start = mobius_case(name, shape)
        operands = [x.astype(dtype) for x in operands]
        carry_in = np.full((rows, 1), start)
        chunk = Chunk(tuple(map(cupy.asarray, operands)), shape, np.dtype(dtype), reverse)
        wanted = loop_in_float64(maps.mobius, operands, start, shape, reverse)
        for chains in (1, 3):
            layout = replace(small_layout(kind, shape, dtype, reverse), chains=chains)
            got = solve(maps.mobius, chunk, [carry_in.astype(dtype)], layout)[0]
            np.testing.assert_allclose(got, wanted, rtol=300 * np.finfo(dtype).eps, atol=0)

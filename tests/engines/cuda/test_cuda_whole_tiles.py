"""Möbius maps of whole tiles, whose scan asks for no kinds, and of others: run on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import loop, small_layout
from cuda_on_host import as_device, poisoned
from test_cuda_channels import _on_host, compiler  # noqa: F401

from mgrec.core.arrays.chunk import Chunk
from mgrec.scans import maps
from mgrec.scans.cuda.determine import prepare

TILE = 768
SHAPES = [(1, 5 * TILE + 5, 1), (1, 3 * TILE, 1), (3, 2500, 1)]
"""A partial tile, the first in reverse; none; several rows."""


def case(name: str, shape: Any) -> tuple[list[Any], float]:
    """Coefficients and entry."""
    rng = np.random.default_rng(8)
    step, power = np.arange(shape[1])[:, None], 2.0 ** rng.integers(-90, 91, shape)
    a, b, c, d = (rng.uniform(0.5, 2, shape) for _ in range(4))
    zero = 0 * a
    return {
        "plain": ([a, b, c, d], 0.5),
        "scaled": ([x * power for x in (a, b, c, d)], 0.5),
        "poles": ([a, b, *(np.where(step % 97 == 5, 0, x) for x in (c, d))], 0.5),
        "nan": ([a, np.where(step == shape[1] // 2, np.nan, b), c, d], 0.5),
        # Columns of spans move so far apart that their products must be found exactly.
        "fixed at 0": ([2 + zero, zero, 1 + zero, 1 + zero], 0.0),
        "fixed at infinity": ([1 + zero, zero, zero, 2 + zero], np.inf),
    }[name]


@pytest.mark.parametrize("shape", [SHAPES[0], *(pytest.param(s, marks=pytest.mark.extended)
                                                for s in SHAPES[1:])], ids=str)  # fmt: skip
@pytest.mark.parametrize("reverse", [True, pytest.param(False, marks=pytest.mark.extended)])
@pytest.mark.parametrize("name", ["plain", "scaled", "poles", "nan", "fixed at 0",
                                  "fixed at infinity"])  # fmt: skip
def test_states_are_those_of_a_loop(name: str, shape: Any, reverse: bool) -> None:
    wide, start = case(name, shape)
    operands = [x.astype("f4") for x in wide]
    chunk = Chunk(tuple(map(as_device, operands)), shape, np.dtype("f4"), reverse)
    layout = replace(small_layout("bulk rows", shape, "f4", reverse), chains=2)
    found, carry_in = as_device(poisoned(shape, np.dtype("f4"))), np.array(start, "f4")
    prepare(maps.mobius, chunk, (carry_in,), (found,), layout, 3)()
    with np.errstate(all="ignore"):
        wide, entries = [x.astype("f8") for x in operands], [np.full((shape[0], 1), start)]
        wanted = loop(maps.mobius, wide, entries, shape, reverse)[0].astype("f4")
    np.testing.assert_allclose(np.array(found), wanted, rtol=300 * 2.0**-23, atol=0)

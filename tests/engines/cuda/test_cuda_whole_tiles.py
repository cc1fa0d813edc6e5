"""Möbius maps of whole tiles, whose scan asks for no kinds, and of others: run on this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import loop_in_float64, mobius_case, small_layout
from cuda_on_host import as_device, poisoned
from test_cuda_channels import COMPILER, _on_host  # noqa: F401

from mgrec.core.arrays.chunk import Chunk
from mgrec.scans import maps
from mgrec.scans.cuda.determine import prepare

TILE = 768
SHAPES = [(1, 5 * TILE + 5, 1), (1, 3 * TILE, 1), (3, 2500, 1)]
"""A partial tile, the first in reverse; none; several rows."""


@pytest.mark.parametrize("shape", [SHAPES[0], *(pytest.param(s, marks=pytest.mark.extended)
                                                for s in SHAPES[1:])], ids=str)  # fmt: skip
@pytest.mark.parametrize("reverse", [True, pytest.param(False, marks=pytest.mark.extended)])
@pytest.mark.parametrize("name", ["plain", "scaled", "poles", "nan", "fixed at 0",
                                  "fixed at infinity"])  # fmt: skip
def test_states_are_those_of_a_loop(name: str, shape: Any, reverse: bool) -> None:
    operands, start = mobius_case(name, shape)
    operands = [x.astype("f4") for x in operands]
    chunk = Chunk(tuple(map(as_device, operands)), shape, np.dtype("f4"), reverse)
    layout = replace(small_layout("bulk rows", shape, "f4", reverse), chains=2)
    found, carry_in = as_device(poisoned(shape, np.dtype("f4"))), np.array(start, "f4")
    prepare(maps.mobius, chunk, (carry_in,), (found,), layout, 3)()
    wanted = loop_in_float64(maps.mobius, operands, start, shape, reverse)
    np.testing.assert_allclose(np.array(found), wanted, rtol=300 * 2.0**-23, atol=0)

"""P-scheme/G compiles for every architecture, on a machine without a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import test_cuda_compilation as kernels

from mgrec.engines.cuda.tracing.functions import state_count
from mgrec.scans.cuda.p_scheme import choose_layout, print_p_scheme, print_rearrangement
from mgrec.scans.cuda.sources import describe
from mgrec.scans.cuda.tuning import SPIN


@pytest.mark.parametrize("case", kernels.CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_the_phases_compile(compile_text: Any, case: Any, architecture: int) -> None:
    transfer_map, chunk = kernels.chunk_of(*case)
    source = describe(chunk)
    guarded = transfer_map.name == "affine" and chunk.dtype.kind in "fc"
    layout = choose_layout(chunk, source, 256, guarded=guarded)
    text = print_p_scheme(transfer_map, source, state_count(transfer_map), layout)
    compile_text(text, architecture)


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8, 16])
def test_the_transpositions_compile(compile_text: Any, itemsize: int, architecture: int) -> None:
    compile_text(print_rearrangement(itemsize), architecture)


def test_the_clock_compiles(compile_text: Any) -> None:
    compile_text(SPIN, 90)

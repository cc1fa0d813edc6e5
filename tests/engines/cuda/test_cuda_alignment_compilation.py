"""The kernels of alignments compile for every architecture, without a GPU."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import test_cuda_compilation as kernels

from mgrec.engines.cuda.device import Device
from mgrec.grids.alignment.cuda.layout import AlignmentLayout, choose_launch
from mgrec.grids.alignment.cuda.program import print_pairs, print_tile

# Of the sequences, of scores, of edges, what letters score, and whether gaps are affine.
KINDS = [
    ("u1", "i4", "i8", "BYTES", True), ("u1", "i4", "i8", "EQUAL", False),
    ("i8", "i8", "i8", "EQUAL", True), ("u4", "f8", "f8", "EQUAL", True),
    ("u1", "f8", "f8", "TABLE", True), ("u1", "i4", "i8", "TABLE", False),
    ("u1", "i8", "i8", "TABLE", False), ("u1", "i4", "i8", "BYTES", False),
]  # fmt: skip
SHAPES = [(100, 1000), (10**5, 10**5), (10**6, 10**6)]


def marked(kind: Any, architecture: int, is_first: bool) -> Any:
    """One program an architecture would take the default run too long as well."""
    is_default = is_first and architecture == 90
    return pytest.param(kind, architecture, marks=[] if is_default else pytest.mark.extended)


CASES = [
    marked(kind, architecture, kind is KINDS[0])
    for kind, architecture in product(KINDS, kernels.ARCHITECTURES)
]


def described(kind: Any) -> dict[str, Any]:
    letter, score, dtype, source, is_affine = kind
    dtypes = {"letter": letter, "score": score, "dtype": dtype}
    named = {name: np.dtype(code) for name, code in dtypes.items()}
    return named | {"source": source, "is_affine": is_affine}


@pytest.mark.parametrize(("kind", "architecture"), CASES)
def test_tiles_compile(compile_text: Any, kind: Any, architecture: int) -> None:
    device = Device(architecture, 132, kernels.SHARED_BYTES[architecture])
    for mode, has_matrix in (("local", False), ("global", True)):
        layout = described(kind) | {"mode": mode, "has_matrix": has_matrix}
        launch = choose_launch(SHAPES[1], device, letters=24, **layout)
        compile_text(print_tile(launch.layout, launch.per_processor), architecture)
        if (kind, architecture) == (KINDS[0], 90):
            break


@pytest.mark.parametrize(("kind", "architecture"), CASES)
def test_pairs_compile(compile_text: Any, kind: Any, architecture: int) -> None:
    for mode in ("local", "semi-global"):
        layout = AlignmentLayout(**described(kind), mode=mode, rows=7, is_chain_short=False)
        compile_text(print_pairs(layout, 4), architecture)
        if (kind, architecture) == (KINDS[0], 90):
            break


def test_launches_fit_the_device(architecture: int) -> None:
    device = Device(architecture, 132, kernels.SHARED_BYTES[architecture])
    for kind, shape, letters in product(KINDS, SHAPES, (4, 64)):
        for has_matrix in (False, True):
            layout = described(kind) | {"mode": "local", "has_matrix": has_matrix}
            launch = choose_launch(shape, device, letters=letters, **layout)
            assert (
                launch.per_processor * (launch.shared_bytes + 20 * 1024)
                <= device.shared_bytes + 1024
            )
            assert 1 <= launch.blocks <= launch.bands
            assert launch.bands * launch.layout.strips >= launch.strips

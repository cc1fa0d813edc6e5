"""compute-sanitizer finds no wrong access and no race in any kernel.

Run as a program, this file launches every kernel once, over little data.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_are_clean(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    run = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "86", sys.executable, __file__],
        capture_output=True, text=True, timeout=280, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    if "Device not supported" in run.stdout:
        pytest.skip("compute-sanitizer does not support this device")
    assert run.returncode == 0, (run.stdout + run.stderr)[-4000:]


def launch_every_kernel() -> None:
    import cupy
    from cuda_cases import KINDS, draw, small_layout, solve

    from mgrec.backends.cuda.precompute import precompute
    from mgrec.phases.chunk import Chunk
    from mgrec.recurrences import maps

    rng = np.random.default_rng(14)
    for kind in KINDS:
        strided = "columns" in kind
        for shape in [(2, 45, 35)] if strided else [(1, 2500, 1), (3, 900, 1)]:
            operands = tuple(cupy.asarray(draw(rng, shape, "f4")) for _ in range(2))
            operands[1][0, 20] = np.inf  # something to repair
            chunk = Chunk(operands, shape, np.dtype("f4"))
            entry = [np.ones((shape[0], shape[2]), "f4")]
            solve(maps.affine, chunk, entry, small_layout(kind, shape, "f4", False), 3)
            precompute(maps.max_plus, chunk)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    launch_every_kernel()

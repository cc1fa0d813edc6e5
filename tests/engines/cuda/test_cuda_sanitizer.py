"""compute-sanitizer finds no wrong access and no race in any kernel.

Run as a program, this file launches every kernel once, over little data.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.hardware]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_kernels_are_clean(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    run = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "86", sys.executable, __file__],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    if "Device not supported" in run.stdout:
        pytest.skip("compute-sanitizer does not support this device")
    assert run.returncode == 0, (run.stdout + run.stderr)[-4000:]


def launch_every_kernel() -> None:
    launch_scans()
    launch_what_surrounds_scans()
    launch_filters()
    launch_tridiagonal()
    launch_tables()
    launch_sweeps()


def launch_scans() -> None:
    import cupy
    from cuda_cases import KINDS, draw, small_layout, solve

    from mgrec.core.arrays.chunk import Chunk
    from mgrec.scans import maps
    from mgrec.scans.cuda.phases import precompute

    rng = np.random.default_rng(14)
    for kind in KINDS:
        strided = "columns" in kind
        for shape in [(2, 45, 35)] if strided else [(1, 2500, 1), (3, 900, 1)]:
            operands = tuple(cupy.asarray(draw(rng, shape, "f4")) for _ in range(2))
            operands[1][0, 20] = np.inf  # something to repair
            chunk = Chunk(operands, shape, np.dtype("f4"))
            carry_in = [np.ones((shape[0], shape[2]), "f4")]
            solve(maps.affine, chunk, carry_in, small_layout(kind, shape, "f4", False), 3)
            for transfer_map in (maps.max_plus, maps.affine):
                precompute(transfer_map, chunk)()


def launch_what_surrounds_scans() -> None:
    """P-scheme/G, and coefficients that are evaluated ahead."""
    import cupy
    from cuda_cases import long_formula

    import mgrec

    t = cupy.ones((2, 3000), "f4")
    t[0, 20] = np.inf
    mgrec.linear_recurrence(cupy.full_like(t, 0.5), t, method="p-scheme")
    mgrec.linear_recurrence(mgrec.Coefficient(long_formula), t)


def launch_filters() -> None:
    """Long and short memory, rows, a few columns and many, and something to repair."""
    import cupy

    from mgrec.signal import lfilter, sosfilt

    for shape, axis in [((40_000,), 0), ((40_000, 2), 0), ((3000, 40), 0), ((3, 3001), 1)]:
        x = cupy.ones(shape, "f4")
        x.ravel()[5] = np.inf
        for a in ([1.0, -0.5], [1.0, -1.0], [1.0, -1.5]):
            lfilter(np.ones(2, "f4"), np.array(a, "f4"), x, axis=axis)
        sosfilt(np.array([[1, 2, 1, 1, -0.5, 0.2]] * 3, "f4"), x, axis=axis)
        narrow = cupy.ones(shape, "i2")
        for samples, along in ((narrow, axis), (narrow.ravel()[1:], 0)):
            lfilter(np.ones(2), np.array([1.0, -0.5]), samples, axis=along)


def launch_tridiagonal() -> None:
    """Systems and columns, on chip and in memory, with one that holds nan."""
    import cupy

    import mgrec

    methods = ("auto", "partition", "thomas", "cyclic-reduction", "pcr")
    for shape, axis in [((40, 70), 1), ((70, 40), 0), ((1, 16_000), 1)]:
        b = cupy.ones(shape, "f4")
        b.ravel()[5] = np.nan
        for method in methods:
            mgrec.solve_tridiagonal(1.0, 4.0, 1.0, b, axis=axis, method=method, check_finite=False)


def launch_tables() -> None:
    """Strips down, to the right and alone, of whole words and not."""
    import cupy

    import mgrec

    for shape in [(70, 16_500), (700, 130), (700, 128), (130, 20, 12)]:
        for dtype in ("f4", "u1"):
            mgrec.summed_area_table(cupy.ones(shape, dtype))


def launch_sweeps() -> None:
    """Several strips and one, of one group of sweeps and of four."""
    import cupy

    import mgrec

    for shape in [(300, 50), (3, 20, 30)]:
        for dtype, sweeps in (("f4", 1), ("f4", 16), ("f8", 4)):
            x = cupy.ones(shape, dtype)
            mgrec.sor(x, x if sweeps == 4 else None, sweeps=sweeps, tol=1e-9)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]
    launch_every_kernel()

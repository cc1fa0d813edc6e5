"""SciPy's own tests of its filters, run against mgrec's: see tests/support/scipy_swap.py.

All pass that concern float32, float64, complex64 and complex128. Not run: those of extended
precision and of object arrays, in which mgrec does not compute (TestLinearFilterFloatExtended,
TestLinearFilterComplexExtended, test_lfilter_bad_object), and test_invalid_params, since
coefficients with two axes vary in time; what else it has is below. Over Dask those of float64 run
alone, and not test_filtfilt_gust, which filters thousands of times inside a minimisation of a
method that takes NumPy arrays.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mgrec.signal import lfilter

SUPPORT = Path(__file__).parents[1] / "support"
MODULE = "scipy.signal.tests.test_signaltools"
NAMES = """
TestLinearFilterFloat32 TestLinearFilterFloat64 TestLinearFilterComplex64 TestLinearFilterComplex128
test_lfilter_notimplemented_input TestLFilterZI TestFiltFilt TestSOSFiltFilt TestSOSFilt
""".split()


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "names", "least"),
    [
        ("numpy", [*NAMES, "test_filtfilt_gust"], 150),
        ("dask", ["TestLinearFilterFloat64", "TestFiltFilt", "TestSOSFiltFilt", "TestSOSFilt"], 80),
    ],
)
def test_scipys_own_tests_pass(kind, names, least, tmp_path):
    environment = os.environ | {"MGREC_SWAP": kind, "PYTEST_ADDOPTS": ""}
    paths = [str(SUPPORT), str(SUPPORT.parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    chosen = [f"{MODULE}::{name}" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "scipy_swap", "-p", "no:cacheprovider"]
    command += ["-k", "not test_invalid_params"]
    run = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(tmp_path), "--pyargs", *chosen],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) >= least


def test_arguments_that_scipy_refuses():
    with pytest.raises(ValueError, match=r"^Parameter b is not"):
        lfilter([], [2.0], [3.0, 4.0])
    with pytest.raises(ValueError, match=r"^Parameter a is not"):
        lfilter([1.0], [], [3.0, 4.0])
    with pytest.raises(NotImplementedError, match=r"^Parameter's dtypes produced "):
        lfilter(*np.array([[1], [2]], np.uint64), np.array([3, 4], np.uint64))

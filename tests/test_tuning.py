"""Reports of P-scheme/G: put together from planted times, and measured on a GPU."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mgrec import tuning
from mgrec.tuning import Configuration, Constants, Measurement


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the measurements: the policy's choice takes 2 ms, another one 1 ms."""
    constants = Constants(6e-8, 5e-9, 7e-8, 6e-12)
    asked: dict[str, Any] = {}

    def sweep(n: int, dtype: Any, kind: str, chosen: Configuration) -> tuple[Measurement, ...]:
        asked.update(n=n, dtype=dtype, kind=kind)
        other = Measurement(Configuration(132, 128), 1e-3, 3e-3)
        return Measurement(chosen, 2e-3, 4e-3), other

    monkeypatch.setattr(tuning.p_scheme, "measure", lambda dtype, kind: constants)
    monkeypatch.setattr(tuning.p_scheme, "choose", lambda n, constants: Configuration(132, 64))
    monkeypatch.setattr(tuning.p_scheme, "sweep", sweep)
    monkeypatch.setattr(tuning.p_scheme, "name_device", lambda: "Tested GPU")
    monkeypatch.setattr(tuning.p_scheme, "copy_bandwidth", lambda: 3e12)
    return asked


def test_a_report_compares_the_policy_with_the_best(planted: dict[str, Any]) -> None:
    report = tuning.report(10**8, "f4", "constant")
    assert planted == {"n": 10**8, "dtype": np.dtype("f4"), "kind": "constant"}
    assert report.predicted == Configuration(132, 64)
    assert report.best.configuration == Configuration(132, 128)
    assert report.floor == pytest.approx(2 * 4 * 10**8 / 3e12)
    # 1.3e-7 s a step over 132·64 processors, and 5e-9 s a processor.
    assert report.predict(report.predicted) == pytest.approx(1.3e-7 / 8448 * 1e8 + 5e-9 * 8448)


def test_a_report_prints_as_a_table(planted: dict[str, Any]) -> None:
    report = tuning.report(10**8, "f8")
    head, constants, names, best, policy = str(report).split("\n")
    assert head == "P-scheme/G on Tested GPU: N = 100,000,000, float64, arrays"
    assert constants == "alpha 60 ns, beta 5 ns, gamma 70 ns; floor 6 ps a step"
    assert names.split()[:3] == ["G", "T", "P"]
    assert best.split() == ["best", "132", "128", "16,896", "0.8539", "1", "0.80", "3"]
    assert policy.split()[:4] == ["policy", "132", "64", "8,448"]
    console = Console(file=StringIO(), width=120)
    console.print(report)
    assert console.file.getvalue().rstrip("\n") == str(report)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tuning.measure("f2"), TypeError, "got float16"),
        (lambda: tuning.measure("float23"), TypeError, "dtype must be a NumPy dtype; got 'float23'"),
        (lambda: tuning.measure("f4", ["arrays"]), ValueError, "kind must be one of"),
        (lambda: tuning.measure("f4", "array"), ValueError, "got 'array'"),
        (lambda: tuning.report(0), ValueError, "n must be at least 1; got 0"),
        (lambda: tuning.report(1e6), TypeError, "n must be an integer; got 1000000.0"),
        (lambda: tuning.report(9, kind="x"), ValueError, "kind must be one of 'arrays', 'const"),
    ],
)
def test_what_cannot_be_measured(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.skipif("cupy" in sys.modules or find_spec("cupy") is not None, reason="CuPy may find a GPU")
def test_without_a_gpu_nothing_is_made_up() -> None:
    with pytest.raises(RuntimeError, match="measured on a GPU; CuPy"):
        tuning.measure()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["arrays", "constant", "computed"])
def test_constants_of_this_gpu(kind: str) -> None:
    constants = tuning.measure("f4", kind)
    assert tuning.measure("f4", kind) is constants
    assert 1e-10 < constants.beta < 1e-6
    assert 1e-9 < constants.alpha < 1e-5
    report = tuning.report(2**20, "f4", kind)
    assert report.predicted in [each.configuration for each in report.measurements]

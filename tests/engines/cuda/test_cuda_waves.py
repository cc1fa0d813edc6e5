"""Shortened sines and cosines: how exact they are, and which formulas may have them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_cuda_tracing import PRELUDE, build

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.engines.cuda.tracing.functions import trace_fast_coefficient
from mgrec.engines.cuda.tracing.intervals import WAVE

FLOAT = np.dtype(np.float32)


def wave(i: Any) -> Any:
    return 0.5 + 0.4 * np.sin(0.001 * i)


RUNNER = """
extern "C" void waves(long long n, const double* x, double* sines, double* cosines, bool* odd) {
  for (long long k = 0; k < n; ++k) {
    odd[k] = false;
    sines[k] = quick_sin(odd[k], x[k]);
    cosines[k] = quick_cos(odd[k], x[k]);
  }
}
extern "C" void formula(long long n, float* values) {
  bool odd = false;
  for (long long k = 0; k < n; ++k) values[k] = wave_quickly(odd, k);
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = PRELUDE + trace_fast_coefficient(StepFunction(wave), "wave", (), FLOAT) + RUNNER
    return build(source, tmp_path_factory.mktemp("waves"))


def test_errors_stay_within_the_bound(compiled: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    near_zeros = np.arange(1, 20_000) * (np.pi / 2)
    x = np.concatenate([
        rng.choice([-1, 1], 100_000) * 2.0 ** rng.uniform(-20, 29.9, 100_000),
        near_zeros, np.nextafter(near_zeros, 0), [2.0**30, -1e300, np.inf, np.nan],
    ])  # fmt: skip
    sines, cosines, odd = np.empty_like(x), np.empty_like(x), np.empty(x.shape, bool)
    compiled.waves(
        ctypes.c_longlong(x.size),
        *(ctypes.c_void_p(a.ctypes.data) for a in (x, sines, cosines, odd)),
    )
    np.testing.assert_array_equal(odd, ~(np.abs(x) < 2.0**30))
    x, sines, cosines = x[~odd], sines[~odd], cosines[~odd]
    # NumPy's own are within 2^-52 of themselves.
    assert (np.abs(sines - np.sin(x)) < WAVE * np.abs(np.sin(x))).all()
    assert (np.abs(cosines - np.cos(x)) < WAVE * np.abs(np.cos(x))).all()


def test_a_formula_is_as_good_as_rounded(compiled: ctypes.CDLL) -> None:
    values = np.empty(300_000, np.float32)
    compiled.formula(ctypes.c_longlong(values.size), ctypes.c_void_p(values.ctypes.data))
    exact = wave(np.arange(values.size))
    error = np.abs(values - exact) / np.spacing(exact.astype(np.float32))
    assert 0.5 - 1e-3 < error.max() < 0.5 + 2.0**-3


@pytest.mark.parametrize(
    ("function", "operands", "is_shortened"),
    [
        (wave, 0, True),
        (lambda i, x: -x * np.cos(i), 1, True),
        (lambda i: np.sin(i) * np.cos(2 * i), 0, True),
        (lambda i: 1 - np.sin(0.001 * i), 0, False),  # may be next to nothing
        (lambda i: 0.5 - 0.49 * np.cos(i / 7), 0, False),  # no quotients
        (lambda i: np.sin(np.sin(0.1 * i)), 0, False),
        (lambda i: np.where(i > 3, np.sin(0.1 * i), 1.0), 0, False),
        (lambda i: 0.5 * i, 0, False),
        (lambda i: np.float32(0.25) * 2**0.5, 0, False),
    ],
)
def test_formulas_that_hide_the_errors(
    function: Callable[..., Any], operands: int, is_shortened: bool
) -> None:
    step, kinds = StepFunction(function), (FLOAT,) * operands
    assert ("quick_" in trace_fast_coefficient(step, "f", kinds, FLOAT)) == is_shortened
    assert not trace_fast_coefficient(step, "f", kinds, np.dtype(np.float64))

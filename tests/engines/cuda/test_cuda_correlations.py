"""Gradients of coefficients from correlations, run on this machine, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chunkings import with_extended
from cuda_on_host import as_device, empty

import mgrec
from mgrec.engines.cuda import backend
from mgrec.filters import adjoint
from mgrec.filters.coefficient_adjoint import AdjointCoefficients
from mgrec.filters.cuda import correlations
from mgrec.solve import prepared

pytestmark = pytest.mark.usefixtures("on_host")
extended = pytest.mark.extended


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (correlations, backend):
        monkeypatch.setattr(module, "_THREADS", 32)
        monkeypatch.setattr(module, "_BLOCKS", 8)


def draw(kind: str, *shape: int) -> Any:
    x = np.random.default_rng(shape).normal(size=(2, *shape))
    return (x[0] + 1j * x[1] if kind in "FD" else x[0]).astype(kind)


def sums_at_lags(delayed: Any, signals: Any, axis: int, count: int) -> Any:
    """The sums of products at lags, by NumPy."""
    moved, *fixed = (np.moveaxis(x, axis, -1).astype("D") for x in (delayed, *signals))
    padded = np.concatenate([moved, np.zeros((*moved.shape[:-1], 90))], -1)
    steps = fixed[0].shape[-1]
    return np.array([
        [(padded[..., k : k + steps] * x.conj()).sum() for k in range(count)] for x in fixed
    ])  # fmt: skip


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 70), 1), pytest.param((2, 70, 5), 1, marks=extended)]
)
@pytest.mark.parametrize("available", [60, 70, 73])
@pytest.mark.parametrize("kinds", with_extended(["fff", "FFF"], "FFF"))
def test_correlations(shape: Any, axis: int, is_reversed: bool, available: int, kinds: str) -> None:
    longer = (*shape[:axis], available, *shape[axis + 1 :])
    delayed = draw(kinds[0], *longer)
    signals = draw(kinds[1], *shape), draw(kinds[2], *shape)
    backward = (slice(None),) * axis + (slice(None, None, -1),)
    array = as_device(delayed[backward].copy())[backward] if is_reversed else as_device(delayed)
    sums = correlations.sum_lags(array, [*map(as_device, signals)], axis, 10)
    expected = sums_at_lags(delayed, signals, axis, 10)
    np.testing.assert_allclose(np.array(sums).sum(0), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("b", "a", "kinds"),
    [
        (3, 3, "fffff"),
        *(
            pytest.param(*case, marks=extended)
            for case in [(1, 4, "ddfed"), (9, 2, "DDDDf"), (70, 3, "fffff")]
        ),
    ],
)
def test_gradients_of_coefficients(b: int, a: int, kinds: str) -> None:
    adjoint, x, y = (draw(kind, k, 80)[:1] for k, kind in enumerate(kinds[:3], 1))
    coefficients = AdjointCoefficients(draw(kinds[3], b), draw(kinds[4], a))
    signals = as_device(x), as_device(y)
    of_b, of_a = correlations.differentiate_coefficients(
        as_device(adjoint), signals, 1, coefficients
    )
    over_x, over_y = sums_at_lags(adjoint, (x, y), 1, max(b, a))
    # The derivative of b/a_0 and a/a_0.
    wide_b, wide_a = coefficients.b.astype("D").conj(), coefficients.a.astype("D").conj()
    of_first = (over_y[1:a] * wide_a[1:]).sum() - (over_x[:b] * wide_b).sum()
    expected_b, expected_a = over_x[:b] / wide_a[0], [of_first / wide_a[0] ** 2]
    expected_a = np.concatenate([expected_a, -over_y[1:a] / wide_a[0]])
    for found, expected, kind in ((of_b, expected_b, kinds[3]), (of_a, expected_a, kinds[4])):
        found = np.array(found)
        if b < 64 and kind != "e":
            assert found.dtype.char == kind
        expected = expected if found.dtype.kind == "c" else expected.real
        np.testing.assert_allclose(found, expected, rtol=1e-3 if kind == "e" else 2e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", with_extended(["f4", "c16"], "c16"))
def test_prepared_gradients(dtype: str) -> None:
    """Coefficients that come again have a prepared call, for other signals and some gradients."""
    prepared._entry.cache_clear()
    b, a = np.array([0.5, 0.2]), np.array([2.0, -0.8, 0.3])
    if dtype == "c16":
        b, a = b + 0.1j, a - 0.3j
    b, a, shape = b.astype(dtype), a.astype(dtype), (2, 72)
    arrays = [empty(shape, dtype) for _ in range(3)]
    targets = [empty(n, dtype) for n in (2, 3, shape)]
    addresses, results = ([x.data.ptr for x in some] for some in (arrays, targets))
    if any(address % 16 for address in (*addresses, results[-1])):
        pytest.skip("memory of NumPy is not aligned")
    call = backend.BACKEND, shape, np.dtype(dtype), 0, addresses
    random, is_solved = np.random.default_rng(7), []
    for of in ((1, 1, 1), (1, 1, 1), (0, 1, 0)):
        for array in (*arrays, *targets):
            array[...] = random.uniform(-1, 1, array.shape)
            if dtype == "c16":
                array.imag[...] = random.uniform(-1, 1, array.shape)
        grad, y, x = arrays
        expected = mgrec.adjoint.lfilter(grad, y, b, a, x)[:3]
        wanted = [r if is_wanted else 0 for r, is_wanted in zip(results, of, strict=True)]
        is_solved.append(adjoint._differentiate_at(*call, wanted, {"b": b, "a": a, "axis": -1}))
        for target, values, is_wanted in zip(targets, expected, of, strict=True):
            if is_wanted and is_solved[-1]:
                np.testing.assert_array_equal(np.array(target), np.array(values))
    assert is_solved == [False, True, True]
    prepared._entry.cache_clear()

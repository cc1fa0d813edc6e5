"""Correlations for the gradients of coefficients, run on this machine, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_blocks_on_host import BlockCompiler
from cuda_on_host import as_device

from mgrec.filters.cuda import correlations

COMPILER = BlockCompiler
pytestmark = pytest.mark.usefixtures("on_host")


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((3, 70), 1), ((2, 70, 5), 1)])
@pytest.mark.parametrize("available", [60, 70, 73])
@pytest.mark.parametrize("kind", ["f", "F"])
def test_correlations(
    shape: Any, axis: int, is_reversed: bool, available: int, kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(correlations, "_THREADS", 32)
    monkeypatch.setattr(correlations, "_BLOCKS", 8)
    random = np.random.default_rng(3)
    longer = (*shape[:axis], available, *shape[axis + 1 :])
    delayed, *signals = (
        (x[0] + 1j * x[1] if kind == "F" else x[0]).astype(kind)
        for x in (random.normal(size=(2, *s)) for s in (longer, shape, shape))
    )
    backward = (slice(None),) * axis + (slice(None, None, -1),)
    array = as_device(delayed[backward].copy())[backward] if is_reversed else as_device(delayed)
    found = correlations.correlate(array, [*map(as_device, signals)], axis, 10)
    moved, *fixed = (np.moveaxis(x, axis, -1).astype("D") for x in (delayed, *signals))
    padded = np.concatenate([moved, np.zeros((*moved.shape[:-1], 90))], -1)
    expected = [[(padded[..., k : k + 70] * x.conj()).sum() for k in range(10)] for x in fixed]
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-12, atol=1e-12)

"""The summary of an affine chunk by plain numbers, where they are safe, is the guarded one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mgrec.core.arrays.chunk import Chunk
from mgrec.scans.cuda.program import Layout
from mgrec.scans.summaries import FINE, NAN
from mgrec.scans.validity import guarded_affine

pytestmark = pytest.mark.gpu

SHAPES = [((1, 3001, 1), False), ((2, 700, 1), True), ((1, 150, 40), False), ((1, 97, 33), True)]
KINDS = ["calm", "tiny", "zeros", "safe", "mixed", "ones", "wild", "nan", "inf", "big", "faded"]


def draw(kind: str, shape: Any, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(KINDS.index(kind))
    s, t = rng.uniform(-0.9, 0.9, shape), rng.normal(size=shape)
    some = rng.random(shape) < 0.02
    if kind == "tiny":
        s *= 1e-6
    if kind == "ones":
        s[:] = 1
    if kind in ("safe", "faded"):
        s = rng.uniform(-1.4, 1.4, shape)
    if kind in ("zeros", "faded"):
        s[some] = 0
    if kind == "mixed":
        s = np.exp(rng.normal(0, 3, shape)) * np.sign(s)
    if kind == "wild":
        s[some] = rng.choice([0, 1e30, 1e-30, -1e20])
    if kind == "nan":
        s[0, shape[1] // 2, 0] = np.nan
    if kind == "inf":
        t[0, shape[1] // 3, 0] = np.inf
    if kind == "big":
        t *= 1e30
    return s.astype(dtype), t.astype(dtype)


def compose_in_turn(s: Any, t: Any, reverse: bool) -> list[Any]:
    guarded = guarded_affine(s.dtype)
    maps: Any = None
    order = range(s.shape[1])
    with np.errstate(all="ignore"):
        for i in reversed(order) if reverse else order:
            step = guarded.lift(s[:, i], t[:, i])
            maps = step if maps is None else guarded.compose(maps, step)
            maps = [np.broadcast_to(np.asarray(x, s.dtype), s[:, i].shape) for x in maps]
    return maps


def reduce(s: Any, t: Any, reverse: bool, layout: Layout) -> Any:
    import cupy

    from mgrec.scans.cuda.precompute import prepare_precompute

    chunk = Chunk((cupy.asarray(s), cupy.asarray(t)), s.shape, s.dtype, reverse)
    maps = cupy.full((8, s.shape[0], s.shape[2]), np.nan, s.dtype)
    prepare_precompute(guarded_affine(s.dtype), chunk, (), (maps,), layout)()
    return maps.get()


def logarithm(mantissa: Any, exponent: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log2(np.abs(mantissa), dtype=float) + exponent


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "reverse"), SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_summaries_are_those_of_guarded_maps(
    kind: str, shape: Any, reverse: bool, dtype: str
) -> None:
    s, t = draw(kind, shape, dtype)
    vector = 16 // s.dtype.itemsize
    layout = Layout(64, 5, 2, reverse=reverse)
    if shape[2] == 1:
        layout = Layout(64, 3 * vector, 1, reverse=reverse, bulk=shape[0] == 1)
    got, wanted = reduce(s, t, reverse, layout), compose_in_turn(s, t, reverse)
    if kind not in ("mixed", "wild"):  # the suspect steps depend on the order of composition
        np.testing.assert_array_equal(got[7], wanted[7])
    np.testing.assert_array_equal(got[7] == NAN, wanted[7] == NAN)
    fine = (got[7] == FINE) & (wanted[7] == FINE)
    eps, steps = np.finfo(dtype).eps, shape[1]
    np.testing.assert_array_equal(got[0][fine] == 0, wanted[0][fine] == 0)
    for k in (0, 3, 5):
        compared = fine & ((wanted[0] != 0) | (k > 0))
        exponents = logarithm(wanted[k], wanted[k + 1])[compared]
        error = np.abs(logarithm(got[k], got[k + 1])[compared] - exponents)
        assert (error <= 2 * steps * eps + eps * np.abs(exponents)).all()
    error = np.abs(got[2][fine] - wanted[2][fine])
    assert (error <= 2e3 * eps * np.maximum(np.abs(wanted[2][fine]), 1)).all()

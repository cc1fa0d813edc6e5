"""Coefficients of many operations are evaluated ahead of the recurrence, piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import long_formula

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.scans.cuda import long_coefficients
from mgrec.scans.validity import guarded_affine

SHAPES = [(1, 1, 1), (1, 5000, 1), (3, 700, 1), (40, 10, 1), (1, 100, 37), (2, 300, 5)]


def long_formula_of(i: Any, y: Any) -> Any:
    return long_formula(i) * y


def short_formula(i: Any) -> Any:
    return 0.5 + 1e-6 * i


@pytest.mark.parametrize(
    ("function", "expected"), [(long_formula, True), (short_formula, False)], ids=["long", "short"]
)
def test_only_long_formulas_are_evaluated_ahead(function: Any, expected: bool) -> None:
    operand = CoefficientOperand(StepFunction(function), 0)
    chunk = Chunk((operand, np.ones((1, 9, 1))), (1, 9, 1), np.dtype("f8"))
    assert long_coefficients.is_ahead(chunk) == expected


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pieces_cover_every_step_once_in_time_order(
    shape: Any, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_coefficients, "PIECE", 256)
    seen = np.zeros(shape, int)
    pieces = long_coefficients.pieces(Chunk((), shape, np.dtype("f8"), reverse))
    for time, piece in enumerate(pieces, start=1):
        first = seen[piece.outers, slice(-1, None) if reverse else slice(0, 1)]
        assert piece.begins == bool((first == 0).all())
        assert (seen[piece.outers, piece.steps] == 0).all()
        seen[piece.outers, piece.steps] = time
    assert seen.all()
    in_time = seen[:, ::-1] if reverse else seen
    assert (np.diff(in_time, axis=1) >= 0).all()


def operands_of(shape: Any, first: int) -> tuple[Any, ...]:
    import cupy

    rng = np.random.default_rng(sum(shape))
    y = cupy.asarray(rng.uniform(0.5, 1.5, (1, shape[1], shape[2])))
    t = cupy.asarray(rng.normal(size=shape))
    return CoefficientOperand(StepFunction(long_formula_of), first, (y,)), t


def loop(operands: Any, chunk: Chunk, carry_in: Any) -> Any:
    index = np.arange(chunk.steps)[None, :, None] + operands[0].first
    s = np.broadcast_to(long_formula_of(index, operands[0].operands[0].get()), chunk.shape)
    t, w, state = operands[1].get(), np.empty(chunk.shape), carry_in
    order = range(chunk.steps)
    for i in reversed(order) if chunk.reverse else order:
        w[:, i] = state = s[:, i] * state + t[:, i]
    return w


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pieces_are_the_whole(shape: Any, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    from mgrec.scans.cuda.phases import kernels
    from mgrec.scans.cuda.precompute import compose

    monkeypatch.setattr(long_coefficients, "PIECE", 256)
    operands = operands_of(shape, 11)
    chunk = Chunk(operands, shape, np.dtype("f8"), reverse)
    carry_in = np.random.default_rng(1).normal(size=chunk.row_shape)
    wanted = loop(operands, chunk, carry_in)
    result = cupy.full(shape, np.nan)
    kernels("auto").determine(affine, chunk, (cupy.asarray(carry_in),), (result,))
    np.testing.assert_allclose(result.get(), wanted, rtol=1e-12, atol=1e-12)
    last = wanted[:, 0 if reverse else -1]
    for transfer_map in (affine, guarded_affine(chunk.dtype)):
        maps = compose(transfer_map, chunk)()
        assert maps is not None
        after = transfer_map.apply(maps, carry_in)
        np.testing.assert_allclose(after, last, rtol=1e-12, atol=1e-12)

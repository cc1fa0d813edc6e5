"""Strategies of wavefront loops over NumPy and Dask arrays: exact, or within a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from grid_arrays import on_cupy
from test_wavefront import PAIRS, each_place, numbers, on_threads, weights_of

import mgrec

pytestmark = pytest.mark.usefixtures("narrow_strips")
Array = np.ndarray[Any, Any]
STRATEGIES = ["compensation", "tiles", "hybrid"]
each_pair = pytest.mark.parametrize(
    "operators",
    [PAIRS[0], *(pytest.param(pair, marks=pytest.mark.extended) for pair in PAIRS[1:])],
    ids="".join,
)


def size_of(local: Array, weights: Any, operators: tuple[str, str]) -> Array:
    """W of the stated bound: the same loop without signs."""
    pair = ("max" if operators[0] == "min" else operators[0], operators[1])
    given = {"weights": tuple(map(abs, weights)), "operators": pair}
    return np.asarray(mgrec.wavefront(abs(local), above=0, left=0, corner=0, **given))


def is_near(result: Array, wanted: Array, size: Array) -> bool:
    bound = 8 * sum(wanted.shape) * np.finfo(wanted.dtype).eps / 2 * size
    return bool((abs(result - wanted) <= bound).all())


@pytest.mark.emulated
@each_place
@each_pair
def test_compensation_keeps_within_its_bound(operators: Any, place: Any, shape: Any) -> None:
    local, weights = numbers(shape), weights_of(shape)
    given: dict[str, Any] = {"weights": weights, "operators": operators}
    wanted = mgrec.wavefront(local, strategy="tiles", above=0, left=0, corner=0, **given)
    result = place(local, strategy="compensation", above=0, left=0, corner=0, **given)
    size = size_of(local, **given)
    assert is_near(result, wanted, size)
    assert not is_near(result * (1 + 1e-9), wanted, size)


@pytest.mark.emulated
@pytest.mark.parametrize(
    "place",
    [mgrec.wavefront, on_threads, pytest.param(on_cupy(mgrec.wavefront), marks=pytest.mark.gpu)],
    ids=["numpy", "threads", "cupy"],
)
@each_pair
def test_hyperplanes_have_the_bits_of_the_loop(operators: Any, place: Any) -> None:
    """Over several tiles of their own, and odd rests of them."""
    for shape in ((20, 27), (2, 130, 70), (3, 600)):
        local, weights = numbers(shape), weights_of(shape)
        borders = {"above": numbers(shape[-1:]), "left": numbers(shape[:-1]), "corner": 0.5}
        given: dict[str, Any] = {"operators": operators, **borders}
        for own in (weights, (0.5, weights[0], -0.25)):
            wanted = mgrec.wavefront(local, weights=own, strategy="tiles", **given)
            result = place(local, weights=own, strategy="hyperplane", **given)
            np.testing.assert_array_equal(result, wanted)
        assert (wanted != mgrec.wavefront(local + 1e-9, weights=own, **given)).any()


def test_compensation_is_not_the_loop() -> None:
    """What it computes differs in its last bits, so that the bound above is one."""
    local, weights = numbers((50, 50)), weights_of((50, 50))
    by_rows, by_tiles = (mgrec.wavefront(local, weights=weights, strategy=s) for s in STRATEGIES[:2])
    assert (by_rows != by_tiles).any()


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("operators", PAIRS, ids="".join)
@each_place
def test_integers_are_exact_and_wrap_around(operators: Any, dtype: str, place: Any, shape: Any) -> None:
    info, generator = np.iinfo(dtype), np.random.default_rng(1)
    local = generator.integers(info.min, info.max, shape, dtype)
    weights = tuple(generator.integers(info.min, info.max, n, dtype) for n in (shape, shape[1], 1))
    given: dict[str, Any] = {"weights": weights, "operators": operators}
    wanted = mgrec.wavefront(local, strategy="tiles", **given)
    for strategy in (*STRATEGIES, "hyperplane"):
        np.testing.assert_array_equal(place(local, strategy=strategy, **given), wanted)


@each_place
def test_nan_and_inf_stand_where_the_loop_has_them(place: Any, shape: Any) -> None:
    """Of b, -b and b the loop adds the first two first; the other order overflows."""
    local = numbers(shape)
    local[4, 7], local[10, 3], local[15, 20] = np.nan, np.inf, -np.inf
    huge = np.full((3, 5), -1.5e308)
    with np.errstate(all="ignore"):
        for grid, weights in ((local, (0.5, -0.5, 1)), (huge, (1, -1, 1)), (huge, (-1, 1, 1))):
            wanted = mgrec.wavefront(grid, weights=weights, strategy="tiles")
            result = place(grid, weights=weights, strategy="compensation")
            for same in (np.isnan, np.isposinf, np.isneginf):
                np.testing.assert_array_equal(same(result), same(wanted))


@pytest.mark.parametrize(
    ("dtype", "columns", "picked"),
    [
        ("i8", 4, "compensation"),
        ("f8", 4, "tiles"),
        pytest.param("i4", 600, "tiles", marks=pytest.mark.extended),
    ],
)
def test_the_hybrid_says_what_it_picks(
    dtype: str, columns: int, picked: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mgrec")
    mgrec.wavefront(numbers((3, columns), dtype), weights=(1, 2, 3))
    shape, name = (3, columns), np.dtype(dtype)
    assert caplog.messages == [f"wavefront: {picked}, shape {shape}, {name}"]
    mgrec.wavefront(numbers(shape, dtype), weights=(1, 2, 3), strategy=picked)
    assert len(caplog.messages) == 1


def refused(strategy: str, operators: Any = ("+", "*"), floor: float | None = None) -> Any:
    borders = {"above": 1.0, "left": 1.0, "corner": 1.0}
    given: dict[str, Any] = {"weights": (1, 1, 1), "operators": operators, "floor": floor}
    return mgrec.wavefront(np.ones((3, 4)), strategy=strategy, **given, **borders)


def test_what_compensation_refuses() -> None:
    with pytest.raises(
        ValueError, match=r"strategy must be one of 'hybrid', .*, 'hyperplane'; got 'diagonals'"
    ):
        refused("diagonals")
    with pytest.raises(ValueError, match=r"there is a floor and ◇ is not 'max'.*; got 'compens"):
        refused("compensation", floor=0.0)
    larger, less = (lambda a, b: np.maximum(a, b)), (lambda a, b: a - b)
    with pytest.raises(ValueError, match=r"distribute\(distribute\(a, b\), c\).* for a, b, c = "):
        refused("compensation", (larger, less))
    first = lambda a, b: a  # noqa: E731
    with pytest.raises(ValueError, match=r"accumulate\(a, b\) == accumulate\(b, a\).*compensation"):
        refused("compensation", (first, "*"))


@pytest.mark.extended
def test_the_hybrid_takes_what_compensation_refuses() -> None:
    pair = (lambda a, b: np.maximum(a, b)), (lambda a, b: a - b)
    np.testing.assert_array_equal(refused("hybrid", pair), np.ones((3, 4)))
    floored = [refused(strategy, floor=9.0) for strategy in ("hybrid", "tiles")]
    np.testing.assert_array_equal(*floored)

"""Kernels of wavefront loops, run on this machine: special values, operators and calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, empty
from wavefront_on_host import (
    PAIRS,
    assert_is_near,
    check,
    each_strategy,
    launched_here,
    numbers,
    on_device,
    on_gpu,
    run,
    size_of,
    weights_of,
)

import mgrec
from mgrec.core.algebra.operators import PLUS_TIMES
from mgrec.engines.cuda import backend
from mgrec.grids.loops.cuda import choice, phases
from mgrec.grids.loops.cuda.layout import Signature, Variation
from mgrec.solve import local as on_one_machine

pytestmark = pytest.mark.extended


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from launched_here(compiler, monkeypatch)


EXTREMES = [
    (("max", "+"), "i4"),
    *(
        (pair, dtype)
        for pair in PAIRS[:3] for dtype in ("i4", "i8")
    ),
]  # fmt: skip


@each_strategy
@pytest.mark.parametrize(("operators", "dtype"), EXTREMES)
def test_integers_wrap_around(operators: Any, dtype: str, strategy: str) -> None:
    info, generator = np.iinfo(dtype), np.random.default_rng(5)
    local = generator.integers(info.min, info.max, (40, 300), dtype)
    weights = tuple(generator.integers(info.min, info.max, n, dtype) for n in (300, (40, 1), 1))
    check(local, strategy, weights=weights, operators=operators)


@each_strategy
def test_nan_and_inf_stand_where_the_loop_has_them(strategy: str) -> None:
    local = numbers((40, 300))
    local[4, 7], local[10, 3], local[15, 200] = np.nan, np.inf, -np.inf
    for weights in ((0.5, -0.5, 1), (0.0, 1, 0), (2.5, 1, -np.inf)):
        with np.errstate(all="ignore"):
            check(local, strategy, weights=weights)


@each_strategy
def test_products_of_weights_beyond_the_range(strategy: str) -> None:
    """0.5**300 and its like underflow, and overflow, where the loop has numbers."""
    for b0 in (0.5, 1e-30, 3.0, np.float32([1e-30, 1e30] * 150)):
        local = np.zeros((4, 300), "f4")
        local[:, 100] = 1e-3
        with np.errstate(all="ignore"):
            check(local, strategy, weights=(b0, 0, 0), left=numbers(4) * 1e30)


@each_strategy
def test_own_operators(strategy: str) -> None:
    pairs = [
        ("i8", (lambda a, b: a ^ b, lambda a, b: a & b)),
        ("f4", (lambda a, b: np.maximum(a, b), "+")),
        ("f8", (lambda a, b: np.maximum(a, b), lambda a, b: np.minimum(a, b))),
        ("i4", (lambda a, b: a ^ b, lambda a, b: a ^ b)),
    ]
    for dtype, operators in pairs:
        local, weights = numbers((40, 270), dtype), weights_of((40, 270), dtype)
        options: dict[str, Any] = {"operators": operators, "weights": weights}
        result = run(local, strategy=strategy, above=0, left=1, corner=1, **options)
        wanted = mgrec.wavefront(local, above=0, left=1, corner=1, **options)
        np.testing.assert_allclose(result, wanted, rtol=1e-5 if dtype == "f4" else 0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3)])
def test_nothing_to_do(shape: tuple[int, ...]) -> None:
    check(numbers(shape), "tiles", weights=(1, 1, 1))


@each_strategy
def test_out(strategy: str) -> None:
    local, out = numbers((40, 64)), empty((40, 64), "f4")
    given = {"weights": (0.5, 0.25, 0.125), "strategy": strategy}
    assert mgrec.wavefront(on_device(local), out=out, **given) is out
    np.testing.assert_array_equal(out, run(local, **given))


@pytest.mark.parametrize("strategy", ["tiles", "compensation"])
def test_dask_arrays(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backend._memory_sizes, DeviceArray.device.id, 2**30)

    def move(x: Any) -> Any:
        return on_device(np.ascontiguousarray(x))

    local = numbers((90, 150), "i4")
    options = {"weights": (1, -2, 3), "operators": ("max", "+"), "above": np.arange(150)}
    options = {name: on_gpu(value) for name, value in options.items()}
    for chunks in [(40, 70), (7, 150)]:
        lazy = da.from_array(local, chunks=chunks).map_blocks(move, meta=move(local[:0, :0]))
        table = mgrec.wavefront(lazy, strategy=strategy, **options)
        assert table.chunks == lazy.chunks
        table = table.map_blocks(np.array, meta=np.empty((0, 0), table.dtype))
        wanted = run(local, **options)
        np.testing.assert_array_equal(table.compute(scheduler="sync"), wanted)


def test_the_hybrid_picks_by_shape() -> None:
    """More of what is side by side; by tiles where compensation would not be the loop's."""
    variations = (Variation.ARRAY, *[Variation.CONSTANT] * 3)
    signature = Signature(PLUS_TIMES, np.dtype("f4"), variations, False, True)
    for shape, picked, exact in [
        ((1, 2**8, 2**15), "compensation", "tiles"),
        ((1, 2**12, 2**11), "tiles", "tiles"),
        ((1, 2**15, 2**8), "compensation by columns", "tiles by columns"),
    ]:
        assert str(choice.choose_traversal("hybrid", signature, shape, True)) == picked
        assert str(choice.choose_traversal("hybrid", signature, shape, False)) == exact
        assert str(choice.choose_traversal("tiles", signature, shape, False)) == exact
        assert (
            str(choice.choose_traversal("compensation", signature, shape, False)) == "compensation"
        )


@pytest.mark.parametrize(
    ("strategy", "dtype"),
    [
        ("tiles", "f4"),
        ("compensation", "f4"),
        ("compensation", "i4"),
    ],
)
def test_the_hybrid_goes_along_columns(
    strategy: str, dtype: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mgrec")
    monkeypatch.setattr(phases, "choose_traversal", lambda *given: choice.Traversal(strategy, True))
    local, borders = numbers((2, 40, 68), dtype), {"above": numbers((2, 68), dtype, 1), "left": 2}
    for weights in ((3, -1, 2), weights_of((40, 68), dtype)):
        check(local, "hybrid", weights=weights, **borders)
        if strategy == "tiles":
            check(local, "tiles", weights=weights, **borders)
    picked = f"wavefront: {strategy} by columns, shape (2, 40, 68), {local.dtype}"
    assert caplog.messages.count(picked) == 2


@pytest.mark.parametrize(
    "traversal", [choice.Traversal("tiles"), choice.Traversal("tiles", True)], ids=str
)
def test_calls_of_a_kind(
    traversal: choice.Traversal, monkeypatch: pytest.MonkeyPatch, solved: list[Any]
) -> None:
    """Later ones look at nothing again, and compute with their own arrays."""
    monkeypatch.setattr(phases, "choose_traversal", lambda *given: traversal)
    for shape in [(40, 68), (2, 33, 40)]:
        for seed in range(3):
            weights = (*weights_of(shape)[:2], -0.5)
            above = numbers((*shape[:-2], shape[-1]), seed=seed)
            local = numbers(shape, seed=seed)
            wanted = mgrec.wavefront(local, weights=weights, above=above, strategy="tiles")
            result = run(local, weights=weights, above=above, strategy="tiles")
            np.testing.assert_array_equal(result, wanted)
    assert [isinstance(problem.operands[-1], DeviceArray) for problem in solved].count(True) == 2


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems that were solved, but for calls of a kind that was solved before."""
    found: list[Any] = []
    solve = on_one_machine.solve
    monkeypatch.setattr(
        on_one_machine,
        "solve",
        lambda problem, *call: found.append(problem) or solve(problem, *call),
    )
    return found


def test_operators_that_cannot_be_traced_are_refused() -> None:
    local, pair = on_device(numbers((4, 5))), (lambda a, b: max(a, b), "+")
    with pytest.raises(TypeError, match=r"Operator '<lambda>' cannot run on a GPU.*np.maximum"):
        mgrec.wavefront(
            local, weights=(1, 1, 1), operators=pair, above=0.0, left=0.0, corner=0.0,
            strategy="tiles",
        )  # fmt: skip


def test_a_wrong_cell_is_found() -> None:
    local = numbers((20, 30))
    wanted = mgrec.wavefront(local, weights=(0.5, 0.25, -0.125), strategy="tiles")
    wrong, size = wanted.copy(), size_of(local, (0.5, 0.25, -0.125))
    wrong[10, 20] += 1e-3 * size[10, 20]
    with pytest.raises(AssertionError):
        assert_is_near(wrong, wanted, size, (-2, -1))

"""Rows divided among launches: P-scheme/G, and maps of four states in one pass, on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import HOSTILE, assert_close, assert_near, draw, hostile, loop
from cuda_on_host import DeviceArray, HostCompiler, as_device, poisoned, use_device

import mgrec
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
from mgrec.scans import maps
from mgrec.scans.cuda import p_scheme
from mgrec.scans.matrix.cuda import one_pass
from mgrec.scans.policy import Configuration

pytestmark = pytest.mark.usefixtures("on_host")


@pytest.fixture
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, Device(90, 4, 10**5))
    use_configuration(monkeypatch, Configuration(3, 32))


def use_configuration(monkeypatch: pytest.MonkeyPatch, configuration: Configuration) -> None:
    monkeypatch.setattr(p_scheme, "default_configuration", lambda *given: configuration)


def by_p_scheme(s: Any, t: Any, initial: Any, reverse: bool) -> Any:
    s, t, initial = (x.view(DeviceArray) for x in (s, t, initial))
    given = {"axis": 1, "reverse": reverse, "method": "p-scheme"}
    return np.asarray(mgrec.linear_recurrence(s, t, initial, **given))


def check_p_scheme(shape: Any, dtype: str, reverse: bool = False) -> None:
    rng = np.random.default_rng(1)
    s, t, initial = (draw(rng, own, dtype) for own in (shape, shape, (shape[0], shape[2])))
    got = by_p_scheme(s, t, initial, reverse)
    wide = {"f": "f8", "c": "c16", "i": "i8"}[np.dtype(dtype).kind]
    operands = [x.astype(wide) for x in (s, t)]
    wanted = loop(maps.affine, operands, [initial.astype(wide)], shape, reverse)
    assert_close(maps.affine, [got], wanted)


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i1"])
def test_parts_of_rows_and_columns(dtype: str, reverse: bool, four_processors: None) -> None:
    for shape in [
        (1, 1, 1),
        (1, 2, 1),
        (1, 95, 1),
        (1, 97, 1),
        (1, 10_007, 1),
        (3, 500, 1),
        (200, 7, 1),
        (70, 33, 1),
        (1, 100, 40),
        (2, 301, 3),
        (1, 9, 130),
    ]:
        check_p_scheme(shape, dtype, reverse)


@pytest.mark.extended
def test_any_configuration(
    on_host: HostCompiler, four_processors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_p_scheme((1, 3001, 1), "f8")
    assert [name for name, _, _ in on_host.launches] == [
        "rearrange_kernel",
        "rearrange_kernel",
        "precompute_kernel",
        "propagate_kernel",
        "determine_kernel",
        "restore_kernel",
        "repair_kernel",
    ]
    assert on_host.launches[2][1:] == (3, 32)
    for configuration in [(1, 1), (2, 48), (1, 1024)]:
        use_configuration(monkeypatch, Configuration(*configuration))
        check_p_scheme((1, 3001, 1), "f8")


@pytest.mark.extended
@pytest.mark.parametrize("reverse", [False, True])
def test_natural_order_gives_the_same_bits(reverse: bool, four_processors: None) -> None:
    """Which benchmarks/papers compares."""
    shape, rng = (3, 3001, 1), np.random.default_rng(7)
    s, t, initial = (as_device(draw(rng, own, "f4")) for own in (shape, shape, (3, 1)))
    chunk, results = Chunk((s, t), shape, np.dtype("f4"), reverse), (poisoned(shape, "f4"),)
    p_scheme.Phases(maps.affine, chunk, (initial,), results, is_rearranged=False)()
    np.testing.assert_array_equal(results[0], by_p_scheme(s, t, initial, reverse))


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(1, 20_001, 1), (4, 5000, 1), (1, 3000, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_special_values_of_parts(
    shape: Any, reverse: bool, four_processors: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheme of the papers alone has nan where a product of 0 and a part overflows."""
    for kind in [*HOSTILE[:3], "large entry decays", "growth to infinity"]:
        s, t, initial = hostile(np.random.default_rng(7), shape, kind)
        (wanted,) = loop(maps.affine, [s, t], [initial], shape, reverse)
        assert_near(by_p_scheme(s, t, initial, reverse), wanted, rtol=3e-5)
    if shape[1] < 20_000:
        return
    monkeypatch.setattr(p_scheme.Phases, "repair", lambda self: None)
    s, t, initial = hostile(np.random.default_rng(7), shape, HOSTILE[0])
    assert not np.isfinite(by_p_scheme(s, t, initial, False)).all()


def as_gpu(array: Any) -> Any:
    return np.array(array).view(DeviceArray)


@pytest.mark.parametrize(
    ("rows", "steps", "reverse", "algebra"),
    [
        (1, 1000, False, ("+", "*")),
        pytest.param(1, 9001, False, ("+", "*"), marks=pytest.mark.extended),
        pytest.param(3, 9000, True, ("+", "*"), marks=pytest.mark.extended),
        pytest.param(40, 33, False, ("max", "+"), marks=pytest.mark.extended),
        pytest.param(1, 9000, True, ("min", "+"), marks=pytest.mark.extended),
        pytest.param(2, 700, False, ("logsumexp", "+"), marks=pytest.mark.extended),
    ],
)
def test_maps_of_four_states_in_one_pass(
    on_host: HostCompiler,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    steps: int,
    reverse: bool,
    algebra: tuple[str, str],
) -> None:
    """Tiles of 32 steps, groups of 16 tiles, and groups of 16 groups.

    Products of all matrices vanish, and forwards that of some overflows.
    """
    monkeypatch.setattr(one_pass, "_LENGTH", 1)
    monkeypatch.setattr(one_pass, "_FEWEST", 1)
    use_device(monkeypatch, Device(90, 7, 227 * 1024))
    generator = np.random.default_rng(0)
    matrices = generator.uniform(-0.7, 0.7, size=(rows, steps, 4, 4))
    operands = matrices, generator.normal(size=(rows, steps, 4))
    initial = generator.normal(size=(rows, 4))
    overflows = algebra == ("+", "*") and not reverse
    if overflows:
        matrices[:, 10:24] = np.repeat([1e60, 1e-60], 7)[:, None, None] * np.eye(4)
        initial *= 1e-200
        operands[1][:, :24] = 0.0
    matrix_map, options = mgrec.maps.matrix(4, algebra), {"reverse": reverse, "axis": 1}
    wanted = mgrec.scan(matrix_map, *operands, initial=initial, **options)
    states = mgrec.scan(matrix_map, *map(as_gpu, operands), initial=as_gpu(initial), **options)
    assert [name for name, *_ in on_host.launches] == ["single_pass_kernel"]
    np.testing.assert_allclose(states, wanted, rtol=1e-11, atol=1e-13)
    if overflows:
        np.testing.assert_allclose(states[:, :24], wanted[:, :24], rtol=1e-11)

"""P-scheme/G: its order of arrays, its kernels run on this machine, and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_cases import assert_close, assert_near, draw, hostile, loop
from cuda_on_host import HostCompiler, poisoned, run_on_host

from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.core.arrays.chunk import Chunk
from mgrec.engines.cuda.device import Device
from mgrec.scans import maps
from mgrec.scans.cuda import p_scheme
from mgrec.scans.cuda.p_scheme import Partition, rearrange, restore
from mgrec.scans.policy import Configuration

# Many programs; tests/tridiagonal/test_p_scheme.py covers the scheme itself in the short run, and
# tests/test_every_recurrence.py the method of CuPy arrays with every map and coefficient.
pytestmark = pytest.mark.extended

SMALL = Configuration(3, 32)
SHAPES = [
    (1, 1, 1), (1, 2, 1), (1, 95, 1), (1, 97, 1), (1, 10_007, 1), (3, 500, 1), (200, 7, 1),
    (70, 33, 1), (1, 100, 40), (2, 301, 3), (1, 9, 130),
]  # fmt: skip


@pytest.fixture
def on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> HostCompiler:
    """Let the launches of P-scheme/G run here, over NumPy arrays."""
    run_on_host(monkeypatch, compiler, p_scheme, device=Device(90, 4, 10**5))
    compiler.launches.clear()
    return compiler


def solve(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Any, configuration: Configuration | None
) -> tuple[Any, ...]:
    import cupy

    results = tuple(cupy.empty(chunk.shape, chunk.dtype) for _ in carry_in)
    p_scheme.Phases(transfer_map, chunk, carry_in, results, configuration)()
    return results


def check(
    transfer_map: TransferMap, operands: Any, shape: Any, dtype: str, states: int, reverse: bool,
    configuration: Configuration = SMALL,
) -> None:  # fmt: skip
    carry_in = [draw(np.random.default_rng(5), (shape[0], shape[2]), dtype) for _ in range(states)]
    chunk = Chunk(tuple(operands), shape, np.dtype(dtype), reverse)
    results = solve(transfer_map, chunk, tuple(carry_in), configuration)
    wide = {"f": "f8", "c": "c16", "i": "i8"}[np.dtype(dtype).kind]
    wanted = loop(
        transfer_map, [x.astype(wide) for x in operands], [w.astype(wide) for w in carry_in],
        shape, reverse,
    )  # fmt: skip
    assert_close(transfer_map, results, wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("processors", [1, 7, 96, 5000])
def test_parts_hold_every_step_once(shape: Any, processors: int) -> None:
    partition = Partition.of(shape, processors)
    rows = shape[0] * shape[2]
    assert partition.count <= max(processors, rows)
    length, per_row = partition.length, partition.per_row
    assert length * (per_row - 1) < shape[1] <= length * per_row
    assert partition.stride >= partition.count
    assert partition.length <= 256 or partition.length % 32 == 0


def columns_of(array: Any, partition: Partition, reverse: bool) -> Any:
    """Rearrange by the definition, one part after the other; nan where nothing is."""
    steps = partition.shape[1]
    wanted = np.full(partition.rearranged_shape, np.nan)
    for part in range(partition.count):
        row, piece = divmod(part, partition.per_row)
        first = piece * partition.length
        run = array[row, first : first + partition.length, 0]
        wanted[1 : 1 + len(run), part] = run.real
        before = first + len(run) if reverse else first - 1
        if 0 <= before < steps:
            wanted[0, part] = array[row, before, 0].real
    return wanted


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[2] == 1], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64", "complex128"])
def test_rearrange_and_restore(
    on_host: HostCompiler, shape: Any, reverse: bool, dtype: str
) -> None:
    partition = Partition.of(shape, 96)
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    moved, restored = poisoned(partition.rearranged_shape, dtype), poisoned(shape, dtype)
    rearrange(array, partition, moved, reverse=reverse)
    wanted = columns_of(array, partition, reverse)
    filled = ~np.isnan(wanted)
    np.testing.assert_array_equal(moved[filled], wanted[filled])
    assert (moved[~filled].view(np.uint8) == 0xFE).all()
    restore(moved, partition, restored)
    np.testing.assert_array_equal(restored, array)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8"])
def test_affine(on_host: HostCompiler, shape: Any, reverse: bool, dtype: str) -> None:
    rng = np.random.default_rng(1)
    check(maps.affine, [draw(rng, shape, dtype) for _ in range(2)], shape, dtype, 1, reverse)


@pytest.mark.parametrize(
    "configuration",
    [None, Configuration(1, 1), Configuration(2, 48), Configuration(1, 1024)],
    ids=str,
)
def test_any_configuration(on_host: HostCompiler, configuration: Any) -> None:
    shape = (1, 3001, 1)
    operands = [draw(np.random.default_rng(6), shape, "float64") for _ in range(2)]
    check(maps.affine, operands, shape, "float64", 1, False, configuration)


def test_three_kernels_between_transpositions(on_host: HostCompiler) -> None:
    shape = (1, 3001, 1)
    operands = [draw(np.random.default_rng(6), shape, "float64") for _ in range(2)]
    check(maps.affine, operands, shape, "float64", 1, False)
    assert [name for name, _, _ in on_host.launches] == [
        "rearrange_kernel", "rearrange_kernel", "precompute_kernel", "propagate_kernel",
        "determine_kernel", "restore_kernel", "repair_kernel",
    ]  # fmt: skip
    assert on_host.launches[2][1:] == (3, 32)


@pytest.mark.parametrize("reverse", [False, True])
def test_natural_order_gives_the_same_bits(on_host: HostCompiler, reverse: bool) -> None:
    shape = (3, 3001, 1)
    rng = np.random.default_rng(7)
    chunk = Chunk(
        tuple(draw(rng, shape, "float32") for _ in range(2)), shape, np.dtype("f4"), reverse
    )
    carry_in = (draw(rng, (3, 1), "float32"),)
    solved = []
    for is_rearranged in (True, False):
        results = (poisoned(shape, "f4"),)
        p_scheme.Phases(maps.affine, chunk, carry_in, results, SMALL, is_rearranged=is_rearranged)()
        solved.append(results[0])
    np.testing.assert_array_equal(*solved)


KINDS = [
    "overflowing product of a zero state", "nan", "inf, later zero", "large entry decays",
    "growth to infinity",
]  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 20_001, 1), (4, 5000, 1), (1, 3000, 33)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_stand_where_the_loop_has_them(
    on_host: HostCompiler, shape: Any, reverse: bool, kind: str
) -> None:
    s, t, carry_in = hostile(np.random.default_rng(7), shape, kind)
    (wanted,) = loop(maps.affine, [s, t], [carry_in], shape, reverse)
    chunk = Chunk((s, t), shape, np.dtype("f4"), reverse)
    (got,) = solve(maps.affine, chunk, (carry_in,), SMALL)
    assert_near(got, wanted, rtol=3e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_without_the_repair_a_part_of_overflowing_products_is_nan(on_host: HostCompiler) -> None:
    """The papers' scheme alone: what the marks and the repair are for."""
    s, t, carry_in = hostile(np.random.default_rng(7), (1, 20_001, 1), KINDS[0])
    results = (poisoned(s.shape, "f4"),)
    chunk = Chunk((s, t), s.shape, np.dtype("f4"))
    phases = p_scheme.Phases(maps.affine, chunk, (carry_in,), results, SMALL)
    phases.rearrange()
    phases.solve_rearranged()
    phases.restore()
    assert np.isnan(results[0]).any()
    phases.repair()
    assert np.isfinite(results[0]).all()


def test_a_wrong_part_is_noticed(on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p_scheme.Phases, "propagate", lambda self: None)
    operands = [draw(np.random.default_rng(8), (1, 3001, 1), "float64") for _ in range(2)]
    monkeypatch.setattr(p_scheme.Phases, "repair", lambda self: None)
    with pytest.raises(AssertionError):
        check(maps.affine, operands, (1, 3001, 1), "float64", 1, False)

"""Layouts of CUDA kernels: the same tiles on every GPU, blocks that fit, and little memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import cuda_cases
import numpy as np
import pytest
from cuda_cases import chunk_of, long_formula
from cuda_on_host import DeviceArray, HostCompiler
from grid_arrays import numbers

import mgrec
from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.operators import PLUS_TIMES
from mgrec.core.arrays.chunk import Chunk, CoefficientOperand
from mgrec.core.backends import backend_of
from mgrec.core.contract.recurrence import ChunkInputs
from mgrec.engines.cuda.backend import BACKEND
from mgrec.engines.cuda.device import Device
from mgrec.engines.cuda.launches import Launch, Slot
from mgrec.engines.cuda.tracing import state_count
from mgrec.grids.alignment.layout import choose_launch
from mgrec.grids.loops import layout as choice
from mgrec.grids.loops.layout import Signature, Variation
from mgrec.grids.recurrence import part_of_gpu
from mgrec.grids.sor.cuda import group_counts, split_sweeps
from mgrec.grids.table import cuda as tables
from mgrec.grids.table.api import Sums, check_table
from mgrec.grids.table.cuda import build_launch, choose_partition
from mgrec.scans.cuda import coefficients
from mgrec.scans.cuda.determine import launch_single_pass, launch_walk
from mgrec.scans.cuda.layouts import choose_layout, choose_precompute
from mgrec.scans.cuda.program import ScanLayout, describe

H100 = cuda_cases.DEVICES[90]
DEVICES = [
    *cuda_cases.DEVICES.values(),
    Device(90, 114, 227 * 1024),
    Device(86, 84, 99 * 1024),
    Device(120, 170, 99 * 1024),
]
each_device = pytest.mark.parametrize("device", DEVICES, ids=lambda device: str(device.capability))
NAMES = ["affine", "constant", "computed", "matrix2", "matrix(4)"]
SHAPES = [
    (1, 1000, 1),
    (1, 2**28, 1),
    (2048, 32768, 1),
    (10**6, 64, 1),
    (10**4, 10**4, 1),
    (1, 32768, 2048),
    (1, 10**6, 64),
    (1, 131072, 512),
    (3, 700, 33),
    (1, 64, 10**6),
]


def chosen(name: str, dtype: str, shape: Any, device: Device) -> tuple[Any, Any, ScanLayout]:
    transfer_map, chunk = chunk_of(name, dtype, shape, reverse=False)
    states, width = state_count(transfer_map), len(transfer_map.identity)
    return transfer_map, chunk, choose_layout(chunk, describe(chunk), width, states, device)


def launch_of(transfer_map: Any, chunk: Any, layout: ScanLayout, device: Device) -> tuple[Launch, int]:
    arrays = [(Slot(0, chunk.row_shape, chunk.dtype),) * state_count(transfer_map)] * 2
    given = (transfer_map, chunk, describe(chunk), layout, *arrays, device.multiprocessors)
    return (launch_walk(*given), 0) if layout.walking else launch_single_pass(*given)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
def test_the_order_of_arithmetic_is_that_of_any_gpu(name: str, dtype: str) -> None:
    for choose, shape in product((choose_layout, choose_precompute), SHAPES):
        transfer_map, chunk = chunk_of(name, dtype, shape, reverse=False)
        states, width = state_count(transfer_map), len(transfer_map.identity)
        layouts = [choose(chunk, describe(chunk), width, states, device) for device in DEVICES]
        assert len({(x.walking, x.threads, x.crowded, x.segmented) for x in layouts}) == 1
        # Walking is the plain loop, however long its pieces are.
        assert layouts[0].walking or len({x.items for x in layouts}) == 1


@each_device
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
def test_blocks_fit_into_shared_memory(name: str, dtype: str, device: Device) -> None:
    for shape in SHAPES:
        transfer_map, chunk, layout = chosen(name, dtype, shape, device)
        launch, _ = launch_of(transfer_map, chunk, layout, device)
        assert launch.shared_bytes <= device.shared_bytes, (shape, layout)


@pytest.mark.parametrize("name", NAMES[:4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_memory_beside_the_arrays_is_a_hundredth_of_the_result(name: str, dtype: str) -> None:
    for shape in SHAPES:
        transfer_map, chunk, layout = chosen(name, dtype, shape, H100)
        if layout.walking:
            continue
        states = state_count(transfer_map)
        layout = replace(layout, guarded=name != "matrix2")
        _, units = launch_of(transfer_map, chunk, layout, H100)
        result = states * np.prod(shape, dtype=float) * chunk.dtype.itemsize
        # A ring of eight turns for each block, however large the result.
        assert units * 8 <= 0.01 * result + 8 * 132 * 32 * 128


@each_device
@pytest.mark.parametrize("strategy", ["tiles", "compensation", "hyperplane"])
def test_blocks_of_loops_fit_a_multiprocessor(device: Device, strategy: str) -> None:
    """As many as are launched at once wait for each other."""
    constant, row, array = Variation
    for dtype, variations in product(
        ("f4", "f8"), [(array, constant, constant, constant), (array, row, row, row), (array,) * 4]
    ):
        signature = Signature(PLUS_TIMES, np.dtype(dtype), variations, False, True)
        partition = choice.choose_partition(strategy, signature, (1, 2**14, 2**14), device)
        own = partition.shared_bytes + partition.layout.kernel_bytes + 1024
        assert own * partition.layout.blocks <= device.shared_bytes + 1024
        assert partition.layout.threads * partition.layout.blocks <= 512
        assert partition.blocks(device) <= partition.layout.blocks * device.multiprocessors


@each_device
@pytest.mark.parametrize(("x", "summed"), [("f4", "f4"), ("c16", "c16"), ("u1", "c16")])
def test_blocks_of_tables_fit(x: str, summed: str, device: Device) -> None:
    for shape in [(1, 16_384, 16_384), (1, 2**15, 2**10), (10_000, 64, 64)]:
        partition = choose_partition(shape, np.dtype(x), np.dtype(summed), True, device)
        declared = partition.layout.kernel_bytes
        assert declared <= 48 * 1024
        assert build_launch(partition, device).shared_bytes + declared <= device.shared_bytes


@each_device
@pytest.mark.parametrize("score", ["i4", "f8"])
def test_blocks_of_alignments_fit_a_multiprocessor(score: str, device: Device) -> None:
    for n, source, letters in product((100, 10**5, 10**6), ("EQUAL", "BYTES", "TABLE"), (4, 64)):
        launch = choose_launch(
            (n, n),
            device,
            letters=letters,
            letter=np.dtype("u1"),
            score=np.dtype(score),
            dtype=np.dtype("i8"),
            source=source,
            is_affine=True,
            mode="local",
            has_matrix=False,
        )
        shared_bytes = launch.per_processor * (launch.shared_bytes + 20 * 1024)
        assert shared_bytes <= device.shared_bytes + 1024
        assert 1 <= launch.blocks <= launch.bands
        assert launch.bands * launch.layout.strips >= launch.strips


def test_the_hybrid_picks_by_shape() -> None:
    """More of what is side by side; by tiles where compensation would not be the loop's."""
    variations = (Variation.ARRAY, *[Variation.CONSTANT] * 3)
    signature = Signature(PLUS_TIMES, np.dtype("f4"), variations, False, True)
    for shape, picked, exact in [
        ((1, 2**8, 2**15), "compensation", "tiles"),
        ((1, 2**12, 2**11), "tiles", "tiles"),
        ((1, 2**15, 2**8), "compensation by columns", "tiles by columns"),
    ]:
        for strategy, is_associative, expected in [
            ("hybrid", True, picked),
            ("hybrid", False, exact),
            ("tiles", False, exact),
            ("compensation", False, "compensation"),
        ]:
            found = choice.choose_traversal(strategy, signature, shape, is_associative)
            assert str(found) == expected


def test_sweeps_are_shared_among_launches() -> None:
    for dtype, room, has_rhs in product(("f4", "f8"), (227, 64), (False, True)):
        groups = group_counts(np.dtype(dtype), has_rhs, room * 1024)
        assert all(sweeps % number == 0 for sweeps, number in groups.items())
        for sweeps in range(1, 100):
            parts = split_sweeps(sweeps, groups)
            assert sum(parts) == sweeps
            assert set(parts) <= set(groups)
            assert len(parts) <= sweeps // max(groups) + 2


# --- parts of tiles, which are added up in the order of the whole -------------------------------

TABLES = [(16384, 32768), (65536, 32768), (16384, 16384), (8192, 8192), (3, 9000, 12000)]
TABLE_DTYPES = [("f4", "f4"), ("u1", "f4"), ("f8", "f8"), ("c16", "c16"), ("f2", "f8"), ("i4", "i8")]


@pytest.mark.parametrize("shape", TABLES)
@pytest.mark.parametrize(("x_dtype", "dtype"), TABLE_DTYPES)
def test_all_parts_of_a_table_have_the_layout_of_the_whole(
    shape: Any, x_dtype: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_CELLS", 1 << 22)
    tables._choose_part.cache_clear()
    own = np.dtype(x_dtype), np.dtype(dtype)
    part = tables._choose_part(shape, 0, *own)
    tables._choose_part.cache_clear()
    if part is None or np.dtype(dtype).kind == "i":
        assert part is not None or (shape == (8192, 8192) and x_dtype == "u1")
        return
    three = (1, *shape)[-3:]
    whole = tables._layouts(three, *own)
    for rows in range(part.least, shape[-2] + 1, part.unit):
        assert tables._layouts((three[0], rows, three[2]), *own) == whole
    assert all(part.unit % layout.tile[0] == 0 for layout in whole)
    # The same on other devices.
    for device in (Device(90, 132, 227 * 1024), Device(80, 108, 163 * 1024)):
        monkeypatch.setattr(tables, "_SMALLEST", device)
        assert tables._layouts(three, *own) == whole


def test_tables_of_floats_are_not_cut_where_their_bits_would_change() -> None:
    floats = np.dtype("f4"), np.dtype("f4")
    assert tables._choose_part((16384, 32768), 1, *floats) is None
    assert tables._choose_part((1 << 20, 512), 0, *floats) is None
    assert tables._choose_part((0, 512), 0, *floats) is None
    assert tables._choose_part((1 << 20, 512), 1, np.dtype("i4"), np.dtype("i4")) is not None


@pytest.mark.parametrize(("columns", "count"), [(400_000, 4), (200_000, 3), (50_000, 1)])
def test_alignments_are_cut_into_few_parts(columns: int, count: int) -> None:
    part = part_of_gpu((200_000, columns))
    assert columns // part.least == count


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_parts_have_the_bits_of_the_whole(
    dtype: str, on_host: HostCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MANY", 2)
    monkeypatch.setattr(tables, "_GROUP_BYTES", 1 << 16)
    monkeypatch.setattr(tables, "_CELLS", 1 << 16)
    x, left = numbers((2, 700, 520), dtype), Sums(None, numbers((2, 700), dtype, 1))
    recurrence = check_table(x, (-2, -1), None, None)[0].recurrence
    backend = backend_of(x.view(DeviceArray))
    part = recurrence.part(backend, x.shape, 1)
    assert part is not None
    assert 2 * part.least <= 700
    assert recurrence.part(backend, x.shape, 2) is None

    def solve(begin: int, end: int, above: Any) -> tuple[Any, Any]:
        own = x[:, begin:end].view(DeviceArray)
        inputs = ChunkInputs((own,), (0,) * 3, (0, begin, 0))
        beside = Sums(None, left.right[:, begin:end])
        (result,), edges = recurrence.determine(backend, inputs, own.shape, above, beside)
        return np.asarray(result), edges

    whole, last = solve(0, 700, None)
    first, edges = solve(0, part.least, None)
    second, end = solve(part.least, 700, edges)
    np.testing.assert_array_equal(np.concatenate([first, second], 1), whole)
    np.testing.assert_array_equal(end.below, last.below)
    np.testing.assert_array_equal(end.right, last.right[:, part.least :])


# --- coefficients of many operations, which are evaluated ahead of the recurrence, in pieces ----

LONG_SHAPES = [(1, 1, 1), (1, 5000, 1), (3, 700, 1), (40, 10, 1), (1, 100, 37), (2, 300, 5)]


def short_formula(i: Any) -> Any:
    return 0.5 + 1e-6 * i


@pytest.mark.parametrize(
    ("function", "expected"), [(long_formula, True), (short_formula, False)], ids=["long", "short"]
)
def test_only_long_formulas_are_evaluated_ahead(function: Any, expected: bool) -> None:
    operand = CoefficientOperand(StepFunction(function), 0)
    chunk = Chunk((operand, np.ones((1, 9, 1))), (1, 9, 1), np.dtype("f8"))
    assert coefficients.is_ahead(chunk) == expected


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
def test_pieces_cover_every_step_once_in_time_order(
    shape: Any, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coefficients, "PIECE", 256)
    seen = np.zeros(shape, int)
    pieces = coefficients.pieces(Chunk((), shape, np.dtype("f8"), reverse))
    for time, piece in enumerate(pieces, start=1):
        first = seen[piece.outers, slice(-1, None) if reverse else slice(0, 1)]
        assert piece.begins == bool((first == 0).all())
        assert (seen[piece.outers, piece.steps] == 0).all()
        seen[piece.outers, piece.steps] = time
    assert seen.all()
    in_time = seen[:, ::-1] if reverse else seen
    assert (np.diff(in_time, axis=1) >= 0).all()


@pytest.mark.parametrize(
    ("s", "shape", "may"),
    [
        (np.ones(1), (1 << 26,), True),  # what the array holds is not known yet
        (np.ones(1), (1 << 25,), False),
        (np.ones((1, 2)), (1 << 28, 2), False),
        (-0.5, (1 << 26, 2), True),
        (-0.5, (1 << 26, 1), False),
        (1.0, (1 << 29,), False),
        (mgrec.Coefficient(lambda i: 0.5), (1 << 29,), False),
    ],
)
def test_chunks_of_a_gpu_are_begun_by_what_is_known_of_them(
    s: Any, shape: tuple[int, ...], may: bool
) -> None:
    problem = mgrec.linear_recurrence.build(s, np.ones((1,) * len(shape)), axis=0)
    assert problem.recurrence.may_speculate(shape, BACKEND) is may

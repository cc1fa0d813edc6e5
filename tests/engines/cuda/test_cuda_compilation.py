"""Every kernel compiles for every architecture, on a machine without a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuda_cases import chunk_of, long_formula

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import affine
from mgrec.core.arrays.chunk import CoefficientOperand
from mgrec.engines.cuda import launches
from mgrec.engines.cuda.device import Device
from mgrec.engines.cuda.launches import Slot
from mgrec.engines.cuda.tracing.functions import state_count
from mgrec.scans.cuda.determine import launch_repair, launch_single_pass, launch_walk
from mgrec.scans.cuda.layouts import choose_layout
from mgrec.scans.cuda.long_coefficients import print_evaluation
from mgrec.scans.cuda.precompute import launch_reduction
from mgrec.scans.cuda.program import Layout
from mgrec.scans.cuda.sources import describe
from mgrec.scans.cuda.speculation import prepare_speculation
from mgrec.scans.validity import guarded_affine

ARCHITECTURES = [75, 80, 90, 100]
# What a block may ask for, of the shared memory of each architecture.
SHARED_BYTES = {75: 64 * 1024, 80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}


CASES = [
    ("affine", "float32", (1, 10**6, 1), False), ("affine", "float64", (9, 500, 1), True),
    ("affine", "complex64", (1, 10**6, 1), False), ("affine", "int32", (10, 10, 1), False),
    ("affine", "complex128", (2, 500, 70), True), ("affine", "int8", (1, 500, 70), False),
    ("constant", "float32", (1, 10**6, 1), True), ("computed", "float32", (7, 10**5, 1), False),
    ("computed", "float64", (1, 500, 70), False), ("mobius", "float64", (1, 10**6, 1), False),
    ("max_plus", "float32", (1, 500, 70), True), ("matrix2", "float32", (3, 10**5, 1), False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_kernels_compile(compile_text: Any, case: Any, architecture: int) -> None:
    transfer_map, chunk = chunk_of(*case)
    states = state_count(transfer_map)
    source = describe(chunk)
    vector = 16 // chunk.dtype.itemsize
    rows = chunk.shape[2] == 1
    layout = Layout(
        128, 3 * vector if rows else 4, 2, reverse=chunk.reverse,
        segmented=chunk.shape[0] > 1 and rows, bulk=rows and architecture >= 90,
        staged=rows and architecture == 80,
        crowded=chunk.shape[1] < 3 * vector, team=1 if rows else 3,
    )  # fmt: skip
    what, given = (transfer_map, chunk, source, layout), [(None,) * states] * 2
    compile_text(launch_single_pass(*what, *given, 132)[0].text, architecture)
    compile_text(launch_reduction(*what, ())[0].text, architecture)


@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_are_begun_compile(
    compile_text: Any, dtype: str, architecture: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    monkeypatch.setattr(launches, "compile_kernel", lambda text, *_, **__: texts.append(text))
    device = Device(architecture, 132, 227 * 1024 if architecture >= 90 else 64 * 1024)
    monkeypatch.setattr(Device, "current", staticmethod(lambda: device))
    transfer_map, chunk = chunk_of("affine", dtype, (1, 10**6, 1), reverse=dtype == "float64")
    told, limit = Slot(3, (5,), np.dtype("f8")), Slot(4, (), np.dtype("i8"), None)
    carry_in, result = Slot(5, (), chunk.dtype, None), Slot(6, chunk.shape, chunk.dtype)
    prepare_speculation(transfer_map, chunk, (carry_in, limit), (result, told))
    assert sum("Signs signs;" in text for text in set(texts)) == 1
    for text in set(texts):
        compile_text(text, architecture)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_evaluations_compile(compile_text: Any, dtype: str, architecture: int) -> None:
    _, chunk = chunk_of("affine", dtype, (1, 10**6, 1), False)
    operand = CoefficientOperand(StepFunction(long_formula), 0)
    chunk = replace(chunk, operands=(operand, chunk.operands[1]))
    compile_text(print_evaluation(affine, chunk, describe(chunk)), architecture)


@pytest.mark.parametrize("channels", [16, pytest.param(3, marks=pytest.mark.extended)])
def test_few_columns_compile(compile_text: Any, channels: int, architecture: int) -> None:
    for name, dtype in (("affine", "float32"), ("computed", "complex128")):
        shape = 2 if channels == 3 else 1, 10**6, channels
        transfer_map, chunk = chunk_of(name, dtype, shape, reverse=channels == 16)
        states, device = state_count(transfer_map), Device(architecture, 132, 227 * 1024)
        source = describe(chunk)
        layout = choose_layout(chunk, source, len(transfer_map.identity), states, device)
        assert layout.channels == (channels if channels == 3 else 32 // chunk.dtype.itemsize)
        assert layout.lines == (channels != 3)
        assert layout.bulk == (architecture >= 90 and channels == 3)
        layout = replace(layout, guarded=name == "affine")
        given = [(None,) * states] * 2
        launch = launch_single_pass(transfer_map, chunk, source, layout, *given, 132)[0]
        compile_text(launch.text, architecture)


@pytest.mark.parametrize("shape", [(50, 21, 1), (1, 21, 50)], ids=str)
def test_walks_compile(compile_text: Any, shape: Any, architecture: int) -> None:
    for name, dtype in (("affine", "float32"), ("matrix2", "float64"), ("computed", "complex128")):
        transfer_map, chunk = chunk_of(name, dtype, shape, reverse=True)
        layout = Layout(32, 16 // chunk.dtype.itemsize, 2, reverse=True, walking=True)
        states = state_count(transfer_map)
        given = [(None,) * states] * 2
        launch = launch_walk(transfer_map, chunk, describe(chunk), layout, *given, 132)
        compile_text(launch.text, architecture)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_repairs_compile(compile_text: Any, dtype: str, architecture: int) -> None:
    for name, shape in (("affine", (3, 500, 1)), ("computed", (1, 5000, 7))):
        _, chunk = chunk_of(name, dtype, shape, reverse=True)
        compile_text(launch_repair(chunk, describe(chunk), ()).text, architecture)


@pytest.mark.parametrize("shape", [(3, 500, 1), (2, 500, 70)], ids=str)
def test_summaries_compile(compile_text: Any, shape: Any, architecture: int) -> None:
    for dtype in ("float32", "float64", "complex128"):
        _, chunk = chunk_of("affine", dtype, shape, reverse=False)
        vector, is_real = 16 // chunk.dtype.itemsize, dtype != "complex128"
        layout = Layout(128, 3 * vector if shape[2] == 1 else 4, 2, guarded=is_real)
        guarded = guarded_affine(chunk.dtype)
        launch = launch_reduction(guarded, chunk, describe(chunk), layout, ())[0]
        compile_text(launch.text, architecture)


def test_a_broken_kernel_is_noticed(compile_text: Any) -> None:
    with pytest.raises(AssertionError, match="undefined"):
        compile_text("__global__ void broken() { unknown(); }", 90)

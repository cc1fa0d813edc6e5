"""The traced C++ of a map, compiled for this machine, against its Python functions."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgrec
from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.core.algebra.transfer_map import TransferMap
from mgrec.engines.cuda.cpp import ctype
from mgrec.engines.cuda.tracing import (
    WAVE,
    operand_count,
    trace_coefficient,
    trace_fast_coefficient,
    trace_transfer_map,
)
from mgrec.scans import maps

KERNELS = Path(mgrec.__file__).parent
CASES = [
    (maps.affine, 1, "float32"),
    (maps.affine, 1, "float64"),
    (maps.affine, 1, "complex64"),
    (maps.affine, 1, "int8"),
    (maps.affine, 1, "int64"),
    (maps.mobius, 1, "float32"),
    (maps.mobius, 1, "float64"),
    (maps.max_plus, 1, "float64"),
    (maps.min_plus, 1, "float32"),
    (maps.matrix2, 2, "float32"),
]
RUNNER = """
extern "C" void run_{k}(const {T}* x, const {T}* y, const {T}* w, {T}* lifted, {T}* composed,
                        {T}* applied) {{
  using namespace case_{k};
  for (int i = 0; i < {count}; ++i) {{
    {T} step[Transfer::OPERANDS];
    for (int p = 0; p < Transfer::OPERANDS; ++p) step[p] = x[p * {count} + i];
    Transfer::Map earlier, later;
    for (int p = 0; p < Transfer::WIDTH; ++p) {{
      earlier.v[p] = y[p * {count} + i];
      later.v[p] = y[(Transfer::WIDTH + p) * {count} + i];
    }}
    Transfer::State state;
    for (int p = 0; p < Transfer::STATES; ++p) state.v[p] = w[p * {count} + i];
    const Transfer::Map a = Transfer::lift(step), b = Transfer::compose(earlier, later);
    state = Transfer::apply(earlier, state);
    for (int p = 0; p < Transfer::WIDTH; ++p) lifted[p * {count} + i] = a.v[p];
    for (int p = 0; p < Transfer::WIDTH; ++p) composed[p * {count} + i] = b.v[p];
    for (int p = 0; p < Transfer::STATES; ++p) applied[p * {count} + i] = state.v[p];
  }}
}}
"""
COUNT = 200
PRELUDE = """
#include <cmath>
using namespace std;
#define DEVICE
#include "engines/cuda/numeric.cuh"
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = [PRELUDE]
    for k, (transfer_map, states, dtype) in enumerate(CASES):
        struct = trace_transfer_map(transfer_map, np.dtype(dtype), states)
        source.append(f"namespace case_{k} {{{struct}}}")
        source.append(RUNNER.format(k=k, T=ctype(np.dtype(dtype)), count=COUNT))
    return build("".join(source), tmp_path_factory.mktemp("traced"))


def build(source: str, folder: Path) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    (folder / "traced.cpp").write_text(source)
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O1",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            f"-I{KERNELS}",
            "traced.cpp",
            "-o",
            "traced.so",
        ],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(str(folder / "traced.so"))


def draw(rng: np.random.Generator, rows: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Random numbers of both signs and many sizes, with a few special ones among them."""
    if dtype.kind == "i":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.integers(low, high, (rows, COUNT), dtype, endpoint=True)
    values = rng.normal(size=(rows, COUNT)) * 2.0 ** rng.integers(-30, 30, (rows, COUNT))
    values = values.astype(dtype)
    if dtype.kind == "c":
        values = values + 1j * rng.normal(size=(rows, COUNT)).astype(dtype)
    else:
        values[:, :6] = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]), (rows, 6))
    return np.ascontiguousarray(values, dtype)


@pytest.mark.parametrize("k", range(len(CASES)), ids=lambda k: f"{CASES[k][0].name}-{CASES[k][2]}")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_traced_functions_compute_what_python_computes(compiled: ctypes.CDLL, k: int) -> None:
    transfer_map, states, name = CASES[k]
    dtype = np.dtype(name)
    width, arity = len(transfer_map.identity), operand_count(transfer_map.lift)
    rng = np.random.default_rng(k)
    x, y, w = (draw(rng, rows, dtype) for rows in (arity, 2 * width, states))
    if transfer_map is maps.mobius:
        # Composed maps are finite, without columns of zeros, and these a power of two apart.
        y[~np.isfinite(y)] = 0.0
        y[0::5][y[0::5] == 0] = y[3::5][y[3::5] == 0] = 1.0
        y[4::5] = rng.integers(-150, 150, (2, COUNT))
    got = [np.empty((rows, COUNT), dtype) for rows in (width, width, states)]
    getattr(compiled, f"run_{k}")(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y, w, *got)))
    earlier, later = tuple(y[:width]), tuple(y[width:])
    state = tuple(w) if states > 1 else w[0]
    applied = transfer_map.apply(earlier, state)
    wanted: tuple[Any, ...] = (
        transfer_map.lift(*x),
        transfer_map.compose(earlier, later),
        applied if states > 1 else (applied,),
    )
    for result, reference in zip(got, wanted, strict=True):
        # Complex products may round differently in NumPy's vector loops; all else is exact.
        ulps = 4 * np.finfo(dtype).eps if dtype.kind == "c" else 0
        for values, right in zip(result, reference, strict=True):
            np.testing.assert_allclose(values, np.asarray(right, dtype), rtol=ulps)


def traced_coefficient(function: Callable[..., Any]) -> str:
    kind = np.dtype("float64")
    return trace_coefficient(StepFunction(function), function.__name__, (kind,), kind)


def build_coefficient(function: Callable[..., Any], folder: Path) -> Callable[..., float]:
    name = function.__name__
    export = f'extern "C" double run(long long i, double x) {{ return {name}(i, x); }}'
    run = build(PRELUDE + traced_coefficient(function) + export, folder).run
    run.restype, run.argtypes = ctypes.c_double, (ctypes.c_longlong, ctypes.c_double)
    return run


def test_coefficient_of_many_ufuncs(tmp_path: Path) -> None:
    def wavy(i: Any, x: Any) -> Any:
        y = 0.5 + 0.4 * np.sin(0.001 * i) * np.where(i % 3 == 1, x, -x)
        mantissa, exponent = np.frexp(y)
        return np.ldexp(mantissa, exponent) + np.maximum(np.tanh(x), np.floor(y)) ** 2 + i // -7

    traced = build_coefficient(wavy, tmp_path)
    for i in (0, 1, 5, 12345, 2**33):
        assert traced(i, 0.37) == pytest.approx(float(wavy(np.int64(i), 0.37)), rel=1e-14)


def test_a_branch_on_any_is_a_choice_of_results(tmp_path: Path) -> None:
    def stepwise(i: Any, x: Any) -> Any:
        if np.any(x > 1):
            return 10.0 if np.any(x > 2) else x + i
        return -x

    traced = build_coefficient(stepwise, tmp_path)
    for x in (0.5, 1.5, 2.5):
        assert traced(3, x) == stepwise(3, np.float64(x))


factor = 2.0


def scaled(i: Any, x: Any) -> Any:
    return factor * x


def test_one_function_may_read_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, before = np.dtype("float64"), StepFunction(scaled)
    assert "0x1.0000000000000p+1" in traced_coefficient(scaled)
    monkeypatch.setitem(globals(), "factor", 3.0)
    assert "0x1.8000000000000p+1" in traced_coefficient(scaled)
    assert "0x1.0000000000000p+1" in trace_coefficient(before, "scaled", (kind,), kind)
    with pytest.raises(RuntimeError, match="functions of a Coefficient read must stay"):
        trace_coefficient(before, "another", (kind,), kind)


def test_too_many_branches_are_refused() -> None:
    def wild(x: Any) -> Any:
        return sum(1.0 if np.any(x > k) else x for k in range(6))

    with pytest.raises(TypeError, match="branches too often"):
        traced_coefficient(lambda i, x: wild(x))


def branching_lift(x: Any) -> tuple[Any]:
    return (x if x > 0 else -x,)


def math_lift(x: Any) -> tuple[Any]:
    return (float(x),)


def unknown_lift(x: Any) -> tuple[Any]:
    return (np.spacing(x),)


def reduced_lift(x: Any) -> tuple[Any]:
    return (np.sort(x),)


@pytest.mark.parametrize(
    ("lift", "words"),
    [
        (branching_lift, ["branch on a value", "np.where"]),
        (math_lift, ["a float", "NumPy ufuncs"]),
        (unknown_lift, ["np.spacing", "maximum"]),
        (reduced_lift, ["np.sort", "np.where"]),
    ],
)
def test_what_cannot_be_traced_says_so(lift: Callable[..., Any], words: list[str]) -> None:
    bad = TransferMap(lift, lambda f, g: (f[0] + g[0],), lambda m, x: m[0] + x, (0,), "bad")
    with pytest.raises(TypeError, match="lift of 'bad' cannot run on a GPU") as caught:
        trace_transfer_map(bad, np.dtype("float32"), 1)
    for word in words:
        assert word in str(caught.value)


# --- what only one side of np.where needs is computed in a branch, and nothing else is ----------


def traced(function: Callable[..., Any], count: int = 2) -> str:
    name = np.dtype("float64")
    return trace_coefficient(StepFunction(function), "f", (name,) * count, name)


def costly(x: Any) -> Any:
    return np.sin(np.exp(np.sqrt(np.cos(x + 1)) * 2))


def test_a_costly_side_runs_under_its_condition() -> None:
    text = traced(lambda i, x, y: np.where(x > 0, costly(y), y))
    before, branch = text.split("if (")
    assert "np_sin" not in before
    assert "np_sin" in branch.split("else")[0]


def test_two_costly_sides_exclude_each_other() -> None:
    text = traced(lambda i, x, y: np.where(x > 0, costly(y), np.tan(costly(x))))
    first, second = text.split("else")
    assert "np_tan" in second
    assert "np_tan" not in first


def test_what_both_sides_need_runs_before() -> None:
    text = traced(lambda i, x, y: np.where(x > 0, costly(y), 1 - costly(y)))
    assert "if (" not in text


def test_cheap_sides_are_selected() -> None:
    assert "if (" not in traced(lambda i, x, y: np.where(x > 0, x + y, x - y))


def test_a_value_that_outlives_the_branch_is_declared_before_it() -> None:
    def function(i: Any, x: Any, y: Any) -> Any:
        z = costly(y)
        first = np.where(x > 0, z, y)
        return first + np.where(x > 0, z + first, y)

    text = traced(function)
    assert "double v" in text.split("if (")[0].replace("const double", "")


def test_what_nothing_uses_is_left_out() -> None:
    text = traced(lambda i, x, y: (np.arctan(x), y)[1] + 1)
    assert "arctan" not in text


def test_a_guarded_choice_is_made_once() -> None:
    def function(i: Any, x: Any, y: Any) -> Any:
        odd = x > 1
        if np.any(odd):
            x = np.where(odd, costly(y), x)
        return np.arctan(x)

    text = traced(function)
    assert text.count("np_arctan") == 1
    assert "np_sin" not in text.split("if (")[0]


def test_a_guard_without_a_choice_runs_both_ways() -> None:
    def function(i: Any, x: Any, y: Any) -> Any:
        if np.any(x > 1):
            y = costly(y)
        return np.arctan(y)

    assert traced(function).count("np_arctan") == 2


# --- shortened sines and cosines ----------------------------------------------------------------

FLOAT = np.dtype(np.float32)


def wave(i: Any) -> Any:
    return 0.5 + 0.4 * np.sin(0.001 * i)


WAVE_RUNNER = """
extern "C" void waves(long long n, const double* x, double* sines, double* cosines, bool* odd) {
  for (long long k = 0; k < n; ++k) {
    odd[k] = false;
    sines[k] = quick_sin(odd[k], x[k]);
    cosines[k] = quick_cos(odd[k], x[k]);
  }
}
extern "C" void formula(long long n, float* values) {
  bool odd = false;
  for (long long k = 0; k < n; ++k) values[k] = wave_quickly(odd, k);
}
"""


@pytest.fixture(scope="module")
def compiled_waves(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = PRELUDE + trace_fast_coefficient(StepFunction(wave), "wave", (), FLOAT) + WAVE_RUNNER
    return build(source, tmp_path_factory.mktemp("waves"))


def test_errors_stay_within_the_bound(compiled_waves: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    near_zeros = np.arange(1, 20_000) * (np.pi / 2)
    x = np.concatenate(
        [
            rng.choice([-1, 1], 100_000) * 2.0 ** rng.uniform(-20, 29.9, 100_000),
            near_zeros,
            np.nextafter(near_zeros, 0),
            [2.0**30, -1e300, np.inf, np.nan],
        ]
    )
    sines, cosines, odd = np.empty_like(x), np.empty_like(x), np.empty(x.shape, bool)
    compiled_waves.waves(
        ctypes.c_longlong(x.size), *(ctypes.c_void_p(a.ctypes.data) for a in (x, sines, cosines, odd))
    )
    np.testing.assert_array_equal(odd, ~(np.abs(x) < 2.0**30))
    x, sines, cosines = x[~odd], sines[~odd], cosines[~odd]
    # NumPy's own are within 2^-52 of themselves.
    assert (np.abs(sines - np.sin(x)) < WAVE * np.abs(np.sin(x))).all()
    assert (np.abs(cosines - np.cos(x)) < WAVE * np.abs(np.cos(x))).all()


def test_a_formula_is_as_good_as_rounded(compiled_waves: ctypes.CDLL) -> None:
    values = np.empty(300_000, np.float32)
    compiled_waves.formula(ctypes.c_longlong(values.size), ctypes.c_void_p(values.ctypes.data))
    exact = wave(np.arange(values.size))
    error = np.abs(values - exact) / np.spacing(exact.astype(np.float32))
    assert 0.5 - 1e-3 < error.max() < 0.5 + 2.0**-3


@pytest.mark.parametrize(
    ("function", "operands", "is_shortened"),
    [
        (wave, 0, True),
        (lambda i, x: -x * np.cos(i), 1, True),
        (lambda i: np.sin(i) * np.cos(2 * i), 0, True),
        (lambda i: 1 - np.sin(0.001 * i), 0, False),  # may be next to nothing
        (lambda i: 0.5 - 0.49 * np.cos(i / 7), 0, False),  # no quotients
        (lambda i: np.sin(np.sin(0.1 * i)), 0, False),
        (lambda i: np.where(i > 3, np.sin(0.1 * i), 1.0), 0, False),
        (lambda i: 0.5 * i, 0, False),
        (lambda i: np.float32(0.25) * 2**0.5, 0, False),
    ],
)
def test_formulas_that_hide_the_errors(
    function: Callable[..., Any], operands: int, is_shortened: bool
) -> None:
    step, kinds = StepFunction(function), (FLOAT,) * operands
    assert ("quick_" in trace_fast_coefficient(step, "f", kinds, FLOAT)) == is_shortened
    assert not trace_fast_coefficient(step, "f", kinds, np.dtype(np.float64))

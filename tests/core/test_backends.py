"""A made-up backend: its parts, one entry in the registry, and no other change run its arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

import dask.array as da
import numpy as np
import pytest

import mgrec
from mgrec import adjoint
from mgrec.core.arrays.array_types import cast
from mgrec.core.backends import CPU, REGISTRY, Backend, backend_of, common_backend
from mgrec.core.contract.kernels import Kernels, at_once
from mgrec.filters.cpu import one_thread as filters
from mgrec.filters.kernels import FilterKernels
from mgrec.grids.table.api import Sums
from mgrec.grids.table.cpu import determine_table
from mgrec.scans.cpu import one_thread as scans
from mgrec.scans.kernels import ScanKernels
from mgrec.signal import ewm, lfilter

pytestmark = pytest.mark.quick


class Wrapped(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the library "wrapped": a NumPy array that no kernel of the CPU can read."""

    __wrapped_array__ = True

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return call(getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return call(function, args, options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "device":
            raise AttributeError(name)
        value = getattr(self.array, name)
        if not callable(value) or name in ("dtype", "flags"):
            return value
        return lambda *args, **options: call(value, args, options)

    def __getitem__(self, key: Any) -> Any:
        return wrap(self.array[key])

    def __len__(self) -> int:
        return len(self.array)


Wrapped.__module__ = "wrapped"


def unwrap(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(unwrap, value))
    return value.array if isinstance(value, Wrapped) else value


def wrap(value: Any) -> Any:
    return Wrapped(value) if isinstance(value, np.ndarray) else value


def call(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    return wrap(function(*unwrap(args), **{name: unwrap(x) for name, x in options.items()}))


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Wrapped:
    return Wrapped(np.empty(shape, dtype))


@dataclass(frozen=True)
class WrappedBackend(Backend):
    engine: ClassVar[str] = "wrapped"
    library: ClassVar[str] = "wrapped"
    array_name: ClassVar[str] = "an array of wrapped"
    place: ClassVar[str] = "in wrapped memory"
    is_host: ClassVar[bool] = False
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any] = empty

    def array_type(self, arrays: Iterable[Any]) -> Any:
        return Wrapped

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(unwrap(array))

    def from_host(self, array: Any, like: Any) -> Any:
        return wrap(array)

    def fetch(self, array: Any) -> Callable[[], np.ndarray]:
        return lambda: self.to_host(array)

    def address(self, array: Any) -> int:
        return int(array.array.ctypes.data)

    def may_share_memory(self, array: Any, other: Any) -> bool:
        return np.may_share_memory(array.array, other.array)


CALLS: list[str] = []


def plain(chunk: Any) -> Any:
    return chunk.map_arrays(unwrap, chunk.shape)


def determine_scan(transfer_map: Any, chunk: Any, carry_in: Any, results: Any) -> None:
    CALLS.append("scans")
    scans.determine(transfer_map, plain(chunk), unwrap(carry_in), unwrap(results))


def determine_filter(cascade: Any, chunk: Any, carry_in: Any, result: Any) -> Any:
    CALLS.append("filters")
    states = filters.zero_states(cascade, chunk) if carry_in is None else unwrap(carry_in)
    return filters.determine_filter(cascade, plain(chunk), states, unwrap(result)).carry_out


def determine_tile(loop: Any, x: Any, edges: Any, table: Any) -> Sums:
    CALLS.append("grids.table")
    sums = determine_table(loop, unwrap(x), unwrap(edges), unwrap(table), is_threaded=False)
    return Sums(wrap(sums.below), wrap(sums.right))


KERNELS = {
    "scans": ScanKernels(determine_scan, at_once(lambda steps, chunk: scans.precompute(steps, plain(chunk)))),
    "filters": FilterKernels(
        determine_filter, at_once(lambda cascade, chunk: filters.precompute_filter(cascade, plain(chunk)))
    ),
    "grids.table": Kernels(determine_tile),
}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the backend with a module for each family."""

    def add(name: str, **content: Any) -> None:
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)

    add("mgrec.engines.wrapped.backend", BACKEND=WrappedBackend())
    for family, kernels in KERNELS.items():
        add(f"mgrec.{family}.wrapped", kernels=lambda method, kernels=kernels: kernels)
    monkeypatch.setitem(REGISTRY, "wrapped", ("wrapped", "__wrapped_array__"))
    CALLS.clear()


X = np.random.default_rng(0).normal(size=(6, 50))
FUNCTIONS = {
    "linear": (lambda x: mgrec.linear_recurrence(0.5, x, 2.0), "scans"),
    "columns": (lambda x: mgrec.linear_recurrence(x, x, axis=0, reverse=True), "scans"),
    "reset": (lambda x: mgrec.linear_recurrence(0.5, x, reset=x > 1), "scans"),
    "reset in host memory": (lambda x: mgrec.linear_recurrence(0.5, x, reset=X > 1), "scans"),
    "labels in host memory": (
        lambda x: mgrec.linear_recurrence(0.5, x, reset=np.repeat(["a", "b"], 25)),
        "scans",
    ),
    "adjoint": (lambda x: adjoint.linear_recurrence(x, x, 0.5, x, X[:, 0], reset=X > 1)[2], "scans"),
    "adjoint by keywords": (
        lambda x: adjoint.linear_recurrence(x, w=x, s=0.5, t=x, initial=X[:, 0], reset=X > 1)[2],
        "scans",
    ),
    "scan": (lambda x: mgrec.scan(mgrec.maps.max_plus, 0.5, x, initial=0.0), "scans"),
    "lfilter": (lambda x: lfilter([0.1], [1, -0.9], x), "filters"),
    "ewm": (lambda x: ewm(x, alpha=0.5), "filters"),
    "table": (mgrec.summed_area_table, "grids.table"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_run_the_kernels_of_the_backend(name: str) -> None:
    function, family = FUNCTIONS[name]
    result = function(Wrapped(X))
    assert type(result) is Wrapped
    np.testing.assert_allclose(unwrap(result), function(X), rtol=1e-12)
    assert family in CALLS


@pytest.mark.parametrize("name", ["linear", "lfilter", "table"])
def test_chunks_run_the_kernels_of_the_backend(name: str) -> None:
    function, family = FUNCTIONS[name]
    lazy = da.from_array(X, chunks=(3, 20)).map_blocks(wrap, meta=Wrapped(X[:0, :0]))
    result = function(lazy).map_blocks(unwrap, meta=X[:0, :0]).compute(scheduler="sync")
    np.testing.assert_allclose(result, function(X), rtol=1e-12)
    assert CALLS.count(family) >= 6


def test_results_are_written_to_arrays_of_the_backend() -> None:
    out = empty(X.shape, X.dtype)
    assert mgrec.linear_recurrence(0.5, Wrapped(X), out=out) is out
    np.testing.assert_array_equal(out.array, mgrec.linear_recurrence(0.5, X))
    with pytest.raises(TypeError, match="out must be an array of wrapped"):
        mgrec.linear_recurrence(0.5, Wrapped(X), out=np.empty_like(X))
    with pytest.raises(ValueError, match="out must not share memory"):
        mgrec.linear_recurrence(0.5, Wrapped(out.array), out=out)


def test_what_the_backend_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match="got s in wrapped memory and t in host memory"):
        mgrec.linear_recurrence(Wrapped(X), X)
    with pytest.raises(NotImplementedError, match=r"no kernels of tridiag.* with wrapped\.asnumpy"):
        mgrec.solve_tridiagonal(1.0, Wrapped(X), 1.0, Wrapped(X))
    with pytest.raises(ValueError, match="method must be 'auto' for arrays in wrapped memory"):
        mgrec.linear_recurrence(0.5, Wrapped(X), method="p-scheme")


def test_the_backend_of_arrays() -> None:
    assert backend_of(X) is backend_of(2.0) is backend_of(None) is CPU
    assert backend_of(Wrapped(X)) == WrappedBackend()
    assert common_backend([0.5, X, Wrapped(X)], "some") == WrappedBackend("some")
    assert common_backend([0.5, X], "some") is CPU


SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1.1754942e-38, -1.17549435e-38, 1.0, -3.4028235e38, np.inf, -np.inf]
).astype("f4")


@pytest.mark.gpu
@pytest.mark.parametrize(("narrow", "wide"), [("f4", "f8"), ("f4", "c16"), ("c8", "c16")])
def test_subnormal_numbers_stay_on_a_gpu(narrow: str, wide: str) -> None:
    cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed")
    x = np.tile(SPECIAL, (6, 1))
    if narrow == "c8":
        x = np.stack([x, x[:, ::-1]], axis=-1).view("c8")[..., 0]
    for layout in (x, x.T, x[::2, 1::3]):
        got = cast(cupy.asarray(layout), np.dtype(wide)).get()
        assert got.dtype == wide
        np.testing.assert_array_equal(got, layout.astype(wide))
        for part in ("real", "imag"):
            signs = np.signbit(getattr(layout.astype(wide), part))
            np.testing.assert_array_equal(np.signbit(getattr(got, part)), signs)
    assert np.isnan(cast(cupy.full(3, np.nan, narrow), np.dtype(wide)).get()).all()

"""Every CUDA program that public calls launch compiles for every architecture, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import pytest
from cuda_cases import DEVICES, long_formula
from cuda_on_host import DeviceArray
from cuda_without_gpu import programs_of

import mgrec
import mgrec.ndimage as images
from mgrec import linear_recurrence, maps, scan
from mgrec.banded import cuda as banded
from mgrec.core.arrays.array_types import bfloat16, has_bfloat16
from mgrec.distributed.groups.group import DEVICE_FRAME, Group
from mgrec.scans.cuda import coefficients
from mgrec.signal import decimate, filtfilt, lfilter, sosfilt

extended = pytest.mark.extended
FLOATS, NUMBERS = ("f4", "f8"), ("f4", "f8", "c8", "c16")
NARROW: list[Any] = ["f2", *([bfloat16()] if has_bfloat16() else [])]


def on_gpu(shape: Any, dtype: Any = "f4") -> Any:
    return np.zeros(shape, dtype).view(DeviceArray)  # memory that is never touched


def solve_banded(lower: int, upper: int, dtype: str, n: int) -> None:
    """Launch kernels of a system, which do not run: the host finds any numbers at the ends of parts."""
    operands = on_gpu((lower + upper + 1, n), dtype), on_gpu(n, dtype)
    solve_both_ways(partial(mgrec.solve_banded, (lower, upper), *operands))


def solve_blocks(k: int, dtype: str, n: int) -> None:
    operands = *[on_gpu((n, k, k), dtype)] * 3, on_gpu((n, k), dtype)
    solve_both_ways(partial(mgrec.solve_block_tridiagonal, *operands))


def solve_both_ways(solve: Callable[[], Any]) -> None:
    """Solve in windows, and with pivots."""
    for prepare_tries in (banded.prepare_tries, lambda *_: ()):
        with suppress(np.linalg.LinAlgError), patch.object(banded, "prepare_tries", prepare_tries):
            solve()


def solve_columns(dtype: str) -> None:
    """Solve systems over two chunks, whose kernels do not run: the host finds any numbers at their ends."""
    x = mgrec.solve_tridiagonal(1.0, 4.0, 1.0, lazy((4096, 64), dtype), axis=0)
    with suppress(np.linalg.LinAlgError, ValueError), np.errstate(all="ignore"):
        x.compute(scheduler="sync")


def lazy(shape: Any, dtype: Any = "f4") -> Any:
    """A Dask array of two chunks along its first axis."""
    chunks = (-(-shape[0] // 2), *shape[1:])
    meta = on_gpu((0,) * len(shape), dtype)
    return da.ones(shape, chunks=chunks).map_blocks(lambda x: on_gpu(x.shape, dtype), meta=meta)


def linear(shape: Any, dtype: str, axis: int = -1, **options: Any) -> Callable[[], Any]:
    operands = on_gpu(shape, dtype), on_gpu(shape, dtype)
    return lambda: linear_recurrence(*operands, axis=axis, **options)


class Ended(Exception):
    """The launches of a rank are prepared."""


class TwoGPUs(Group):
    """A group for programs that are compiled and not run."""

    rank, size, frame, is_asynchronous = 0, 2, DEVICE_FRAME, True

    def all_gather(self, array: Any) -> Any:
        raise Ended

    def all_gather_into(self, received: Any, sent: Any) -> None:
        pass

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        raise Ended

    def abort(self) -> None:
        pass

    def wait_for(self, event: Any) -> None:
        raise Ended


def on_ranks(function: Any, *operands: Any, **options: Any) -> Callable[[], Any]:
    def call() -> None:
        with pytest.raises(Ended):
            function(*operands, group=TwoGPUs(), **options)

    return call


# Channels, lines of them, columns one by one and in words, and the plain loop.
COLUMNS = [(10**6, 3), (10**6, 64), (10**6, 96), (10**5, 131), (10**5, 640), (8, 10**5), (2048, 32_768)]


def wave(i: Any, x: Any) -> Any:
    return 0.5 + 0.4 * np.sin(0.001 * i) * x


computed = mgrec.Coefficient(wave, np.float32(1))
FILTERS = {
    "gain": ([3.0], [2.0]),
    "order 2": ([1.0, 2.0], [1.0, -0.5, 0.2]),
    "order 64": ([1.0], np.ones(65)),
    "feed-forward": (np.ones(300), [1.0]),
    "complex": ([1, 0.5j], [1, 0.2 - 0.3j, 0.1j]),
    "long memory": ([1.0, 2.0], [1.0, -0.9999999]),
    "crowded poles": ([1.0], [1.0, -1.9998, 0.99980001]),
}
# One row, several, a few columns and many.
FILTERED = [(1, 5000, 1), (3, 5001, 1), (2, 500, 5), (1, 500, 40)]


def filtered(name: str, shapes: Any, dtypes: Any) -> list[Callable[[], Any]]:
    kind = "c8" if name == "complex" else "f4"
    b, a = (np.array(coefficients, kind) for coefficients in FILTERS[name])
    return [
        lambda shape=shape, dtype=dtype: lfilter(b, a, on_gpu(shape, dtype), axis=1)
        for shape, dtype in product(shapes, dtypes)
    ]


@np.errstate(all="ignore")  # Outputs are undefined.
def in_square_root_form(function: Any, n: int, p: int, dtype: str) -> None:
    shapes = (100, p), (p, n), (p, p), (n, n), (n, n)
    function(
        *[on_gpu(shape, dtype) for shape in shapes],
        initial_state=on_gpu(n, dtype),
        initial_state_cov=on_gpu((n, n), dtype),
        square_root=True,
    )


@np.errstate(all="ignore")  # Outputs are undefined.
def gradient_of_initial_state(*arrays: Any, **options: Any) -> None:
    mgrec.adjoint.statespace_log_likelihood(1.0, *arrays, **options, of="initial_state")


@np.errstate(all="ignore")  # Outputs of the first pass are undefined.
def filtered_twice(name: str, dtype: str, wanted: str | None) -> None:
    filtfilt(*FILTERS[name], on_gpu((500, 40), dtype), 0, None, dtype=wanted)


def rounded_twice(columns: int) -> Any:
    return filtfilt(*FILTERS["order 2"], lazy((500, columns), "i2"), 0, None, dtype="f4")


TABLES = [
    ("f4", "f4"),
    ("f8", "f8"),
    ("c8", "c8"),
    ("c16", "c16"),
    ("u1", "i4"),
    ("u1", "u1"),
    ("u1", "c16"),
    ("i8", "i1"),
    ("f8", "f4"),
    ("?", "i8"),
    ("i2", "i8"),
]
# Strips down and to the right, images that are one strip, and rows that are no whole words.
IMAGES = [(4096, 16_384), (2**15, 2**10), (10_000, 64, 64), (16_384, 1023)]
SCORES: list[tuple[str, dict[str, Any]]] = [
    ("u1", {"match": 2, "mismatch": -1, "gap": -5, "extend": -1}),
    ("u1", {"match": 2, "mismatch": -1, "gap": -2}),
    ("i8", {"match": 2**41, "mismatch": -1, "gap": -5, "extend": -1}),
    ("u4", {"match": 2.5, "mismatch": -1, "gap": -5, "extend": -1}),
    ("u1", {"matrix": np.where(np.eye(7) > 0, 3, -1), "gap": -5}),
    ("u1", {"matrix": np.where(np.eye(7) > 0, 3.5, -1), "gap": -5, "extend": -1}),
    ("u1", {"matrix": np.where(np.eye(7) > 0, 2**41, -1), "gap": -5}),
]


# Images along both axes, samples and results. Pixels of complex numbers are pairs.
PICTURES = [("f4", "f4"), ("f8", "f8"), ("c8", "c16"), ("u1", "u1"), ("?", "?"), ("u8", "u8"), ("i2", "f4")]
PIXELS = (600, 700)


def pictures(function: Any, *arguments: Any, **options: Any) -> list[Callable[[], Any]]:
    return [
        lambda dtypes=dtypes, like=like: function(
            like(PIXELS, dtypes[0]), *arguments, output=np.dtype(dtypes[1]), **options
        )
        for dtypes, like in [*product(PICTURES, [on_gpu]), (PICTURES[0], lazy), (PICTURES[2], lazy)]
    ]


def pairs_of(dtype: str) -> Any:
    return mgrec.Sequences(on_gpu(900, dtype), np.array([0, 400, 900]))


def traversals(dtype: str, weights: Any, **options: Any) -> list[Callable[[], Any]]:
    local = on_gpu((2000, 2000), dtype)
    given = {"weights": weights, **options}
    return [
        lambda strategy=strategy: mgrec.wavefront(local, strategy=strategy, **given)
        for strategy in ("tiles", "compensation", "hyperplane")
    ]


def weights_of(dtype: str) -> tuple[Any, ...]:
    return on_gpu(2000, dtype), on_gpu((2000, 1), dtype), on_gpu((2000, 2000), dtype)


CALLS: dict[str, list[Callable[[], Any]]] = {
    "rows": [
        linear((1, 10**6), "f4"),
        linear((9, 500), "f8", reverse=True),
        linear((1, 10**6), "c8"),
        linear((10, 10), "i4"),
        lambda: linear_recurrence(0.5, on_gpu(10**6), reverse=True),
        lambda: linear_recurrence(0.5, on_gpu(10**6), reset=on_gpu(10**6, "i4")),
        lambda: linear_recurrence(on_gpu((9, 1)), on_gpu((9, 500))),
    ],
    "columns": [
        linear((2, 500, 70), "c16", 1, reverse=True),
        linear((1, 500, 70), "i1", 1),
        linear((1, 10**6, 16), "f4", 1, reverse=True),
        linear((2, 10**6, 3), "f4", 1),
        linear((1, 10**6, 16), "c16", 1),
        lambda: linear_recurrence(on_gpu((1, 70)), on_gpu((2, 500, 70)), axis=1),
    ],
    "walks": [
        linear((5000, 21), "f4", reverse=True),
        linear((20_000, 21, 1), "f8", 1),
        linear((1, 21, 50_000), "f4", 1, reverse=True),
        lambda: linear_recurrence(computed, on_gpu((20_000, 21), "c16")),
    ],
    "coefficients": [
        lambda: linear_recurrence(computed, on_gpu((7, 10**5))),
        lambda: linear_recurrence(computed, on_gpu((1, 500, 70), "f8"), axis=1),
        lambda: linear_recurrence(computed, on_gpu((1, 10**6, 16), "c16"), axis=1),
        *(
            lambda dtype=dtype: linear_recurrence(mgrec.Coefficient(long_formula), on_gpu(10**6, dtype))
            for dtype in ("f4", "f8", "c8")
        ),
    ],
    "other maps": [
        lambda: mgrec.rational_recurrence(on_gpu(10**6, "f8"), on_gpu(10**6, "f8"), 1, 2, 1),
        lambda: scan(
            maps.max_plus, on_gpu((1, 500, 70)), on_gpu((1, 500, 70)), initial=0.0, axis=1, reverse=True
        ),
        lambda: scan(maps.matrix2, *[on_gpu((3, 10**5))] * 6, initial=(0.0, 0.0)),
        lambda: scan(maps.matrix2, *[on_gpu((20_000, 21), "f8")] * 6, initial=(0.0, 0.0)),
    ],
    "maps of several states": [
        lambda shape=shape, n=n, algebra=algebra: scan(
            maps.matrix(n, algebra),
            on_gpu((*shape, n, n), "f8"),
            on_gpu((*shape, n), "f8"),
            initial=on_gpu(n, "f8"),
        )
        for n, algebra, shape in [
            (4, ("+", "*"), (10**5,)),
            (2, ("+", "*"), (3, 1000)),
            (2, ("max", "+"), (3, 1000)),
        ]
    ],
    "square roots": [lambda: in_square_root_form(mgrec.statespace.kalman_smoother, 2, 1, "f4")],
    "hidden states": [
        *(
            lambda dtype=dtype, function=function: function(
                on_gpu((2, 100, 1), dtype),
                on_gpu((1, 2), dtype),
                on_gpu((1, 1), dtype),
                on_gpu((2, 2), dtype),
                on_gpu((2, 2), dtype),
                initial_state=on_gpu(2, dtype),
                initial_state_cov=on_gpu((2, 2), dtype),
            )
            for dtype in FLOATS
            for function in (
                mgrec.statespace.kalman_filter,
                mgrec.statespace.kalman_smoother,
                gradient_of_initial_state,
            )
        ),
        *(
            lambda dtype=dtype, function=function: function(
                on_gpu(3, dtype), on_gpu((3, 3), dtype), on_gpu((100, 3), dtype)
            )
            for dtype in FLOATS
            for function in (
                mgrec.hmm.forward_backward,
                mgrec.hmm.viterbi,
                partial(mgrec.adjoint.hmm_log_likelihood, 1.0),
            )
        ),
        lambda: mgrec.hmm.sample(on_gpu(3, "f8"), on_gpu((3, 3), "f8"), on_gpu(100, "f8")),
        lambda: scan(maps.matrix(5), on_gpu((100, 5, 5)), on_gpu((100, 5)), initial=on_gpu(5), reverse=True),
        lambda: scan(
            maps.matrix(2, structure="companion"), on_gpu((100, 2)), on_gpu((100, 2)), initial=on_gpu(2)
        ),
        *(
            lambda dtype=dtype, order=order, form=form: lfilter(
                on_gpu((100, order + 1), dtype), [1.0, 0.5], on_gpu(100, dtype), zi=on_gpu(order), form=form
            )
            for dtype in NUMBERS
            for order in (2, 5)
            for form in ("transposed", "direct")
        ),
        lambda: lfilter(on_gpu((100, 65), "c16"), 1.0, on_gpu(100, "c16")),
    ],
    "chunks": [
        *(
            lambda dtype=dtype, shape=shape: linear_recurrence(lazy(shape, dtype), lazy(shape, dtype), axis=0)
            for dtype in ("f4", "f8", "c16", "i4", *NARROW)
            for shape in ((10**6,), (1000, 70))
        ),
        lambda: linear_recurrence(0.5, lazy((10**6,)), reverse=True, axis=0),
        lambda: linear_recurrence(computed, lazy((10**6,)), axis=0),
        lambda: mgrec.rational_recurrence(lazy((10**6,)), 1.0, 2.0, 3.0, 1.0),
        lambda: scan(maps.max_plus, lazy((1000, 70)), 0.0, initial=0.0, axis=0),
        lambda: scan(maps.matrix2, *[lazy((10**5,))] * 6, initial=(0.0, 0.0)),
        *(partial(solve_columns, dtype) for dtype in NUMBERS),
        lambda: lfilter(*FILTERS["order 2"], lazy((10**6,)), axis=0),
        lambda: lfilter(*FILTERS["long memory"], lazy((10**6,)), axis=0),
        lambda: (
            mgrec.hmm.forward_backward(on_gpu(3, "f8"), on_gpu((3, 3), "f8"), lazy((100, 3), "f8")).posteriors
        ),
    ],
    "P-scheme/G": [
        *(
            linear(shape, dtype, 1, method="p-scheme")
            for shape, dtype in [
                ((1, 10**6), "f4"),
                ((9, 500), "f8"),
                ((2, 500, 70), "c16"),
                ((10, 10), "i4"),
                ((9, 500), "i1"),
                ((9, 500), "i2"),
            ]
        ),
        lambda: linear_recurrence(computed, on_gpu(10**5), method="p-scheme"),
        lambda: scan(maps.matrix2, *[on_gpu(10**5)] * 6, initial=(0, 0), method="p-scheme"),
        lambda: scan(maps.max_plus, on_gpu(10**5), 0.0, initial=0.0, method="p-scheme"),
    ],
    **{
        f"filter, {name}": filtered(
            name,
            FILTERED[: 1 if name in ("order 64", "feed-forward") else None],
            ("c8", "c16") if name == "complex" else FLOATS,
        )
        for name in FILTERS
        if name != "crowded poles"
    },
    "filter, one pass": [
        *filtered("long memory", [(1, 15 << 20, 1)], FLOATS),
        lambda: lfilter([1.0], [1.0, -1.98, 0.9801], on_gpu((1, 15 << 20, 1), "f8"), axis=1),
    ],
    "filter, crowded poles": [
        *filtered("crowded poles", [(1, 20_000, 1), (2, 500, 40)], FLOATS),
        lambda: lfilter([1.0], np.poly([0.9999j] * 2), on_gpu((1, 20_000, 1), "c16"), axis=1),
    ],
    "gradients": [
        *(
            lambda dtype=dtype, shape=shape: mgrec.adjoint.linear_recurrence(
                *[on_gpu(shape, dtype)] * 4, axis=1, of="t"
            )
            for dtype in FLOATS
            for shape in ((1, 10**5), (9, 500), (2, 500, 70))
        ),
        *(
            lambda dtype=dtype, b=b: mgrec.adjoint.lfilter(
                on_gpu((3, 5000), dtype),
                on_gpu((3, 5000), dtype),
                b,
                [1.0, -0.5],
                on_gpu((3, 5000), dtype),
                of=("b", "a"),
            )
            for dtype in NUMBERS
            for b in ([1.0, 2.0], np.ones(10))
        ),
        *(
            lambda dtype=dtype: mgrec.adjoint.solve_tridiagonal(*[on_gpu((9, 500), dtype)] * 6)
            for dtype in FLOATS
        ),
    ],
    "results of two bytes": [
        case
        for dtype in NARROW
        for case in (
            linear((1, 10**6), dtype),
            linear((9, 500), dtype, reverse=True),
            *(linear(shape, dtype, axis=0) for shape in COLUMNS),
            lambda dtype=dtype: lfilter(
                np.ones(2, dtype), np.array([1, -0.5], dtype), on_gpu((3, 5000), dtype)
            ),
            lambda dtype=dtype: lfilter(
                np.ones(2, dtype), np.array([1, -0.5], dtype), on_gpu((500, 40), dtype), axis=0
            ),
        )
    ],
    "narrow samples": [
        *filtered("order 2", FILTERED, ["i2"]),
        *filtered("order 2", FILTERED[:1], ["f2", "c8"]),
        *filtered("long memory", FILTERED[:1], ["i2", "f2"]),
    ],
    "sections": [
        lambda shape=shape, dtype=dtype: sosfilt(np.ones((8, 6), dtype), on_gpu(shape, dtype), axis=1)
        for shape, dtype in product(FILTERED, FLOATS)
    ],
    "parts of ranks": [
        on_ranks(linear_recurrence, s, on_gpu(shape, dtype), axis=0, reverse=reverse)
        for dtype, reverse in (("f4", False), ("f8", True), *product(NARROW, [False]))
        for shape in [(1 << 28,), (1 << 20, 200), (1000,)]
        for s in (on_gpu(shape, dtype), 0.5)
    ]
    + [
        on_ranks(lfilter, [1.0, 0.5], [1.0, -0.5], on_gpu(shape, dtype), axis=0)
        for dtype in FLOATS
        for shape in [(1 << 28,), (1 << 20, 300)]
    ]
    + [
        on_ranks(mgrec.solve_tridiagonal, 1.0, 4.0, 1.0, on_gpu(shape, dtype), axis=0)
        for dtype in FLOATS
        for shape in [(1 << 20,), (1 << 20, 9), (4096, 640)]
    ]
    + [
        on_ranks(
            scan,
            maps.matrix(n),
            on_gpu((1 << 20, n, n), "f8"),
            on_gpu((1 << 20, n), "f8"),
            axis=0,
            reverse=n == 2,
        )
        for n in (2, 4)
    ],
    "zero phase": [
        partial(filtered_twice, name, dtype, wanted)
        for name in ("order 2", "long memory")
        for dtype, wanted in (("i2", "f4"), ("f8", None))
    ]
    + [partial(rounded_twice, columns) for columns in (40, 64)],
    "decimation": [
        lambda dtype=dtype: decimate(on_gpu((500, 40), dtype), 5, ftype="fir", axis=0)
        for dtype in ("i2", *FLOATS)
    ],
    **{
        f"banded, {lower} and {upper}": [
            partial(solve_banded, lower, upper, dtype, shape) for dtype in NUMBERS for shape in [100, 10**5]
        ]
        for lower, upper in ((0, 1), (2, 2), (4, 4))
    },
    **{
        f"blocks of {k}": [
            partial(solve_blocks, k, dtype, shape) for dtype in NUMBERS for shape in [30, 30_000]
        ]
        for k in (2, 3, 8)
    },
    **{
        f"tridiagonal, {method}": [
            lambda dtype=dtype, shape=shape, method=method: mgrec.solve_tridiagonal(
                1.0, 4.0, 1.0, on_gpu(shape, dtype), axis=1, check_finite=False, method=method
            )
            for dtype in NUMBERS
            for shape in [(1, 4096, 1), (3, 4095, 1), (2, 500, 30), (10**4, 64, 1), (1, 10**5, 50)]
        ]
        for method in ("auto", "partition", "thomas", "cyclic-reduction", "pcr")
    },
    **{
        f"tables, {' '.join(dtypes)}": [
            lambda shape=shape, dtypes=dtypes: mgrec.summed_area_table(
                on_gpu(shape, dtypes[0]), dtype=dtypes[1]
            )
            for shape in IMAGES
        ]
        for dtypes in TABLES
    },
    # Several strips, and one; as many sweeps as a launch does, and less.
    **{
        f"sweeps, {dtype}": [
            lambda shape=shape, sweeps=sweeps, dtype=dtype: mgrec.sor(
                on_gpu(shape, dtype), on_gpu(shape, dtype) if sweeps % 2 else None, sweeps=sweeps
            )
            for shape in [(1000, 2000), (1000, 20, 30)]
            for sweeps in (1, 2, 16)
        ]
        for dtype in FLOATS
    },
    "splines": pictures(images.spline_filter, mode="grid-wrap"),
    "splines of order 5": pictures(images.spline_filter, 5)[:1],
    "gaussians": pictures(images.gaussian_filter, 3, mode="constant")[:1],
    "derivatives": pictures(images.gaussian_filter, 3, 1)[:1],
    "averages": [
        *pictures(images.uniform_filter, 51)[:-2],
        *pictures(images.uniform_filter, 3, mode="wrap")[:2],
        *pictures(images.uniform_filter, 51, mode="constant")[:-2],
    ],
    "loops": traversals("f4", (on_gpu(2000), 0.5, 0.25)),
    "alignments": [
        lambda: mgrec.smith_waterman(on_gpu(9000, "u1"), on_gpu(9000, "u1"), **SCORES[0][1]),
        lambda: mgrec.smith_waterman(pairs_of("u1"), pairs_of("u1"), **SCORES[0][1]),
    ],
}
# Programs that take long to compile, and others of the kinds above.
MORE: dict[str, list[Callable[[], Any]]] = {
    "square roots, sizes": [
        lambda dtype=dtype, function=function, sizes=sizes: in_square_root_form(function, *sizes, dtype)
        for dtype in FLOATS
        for function in (mgrec.statespace.kalman_filter, mgrec.statespace.kalman_smoother)
        for sizes in ((2, 1), (3, 2), (8, 8))
    ],
    **{
        f"loops, {dtype}": [
            *traversals(dtype, weights_of(dtype)),
            *traversals(dtype, (1, 1, 1), operators=("max", "+"), floor=0),
            *traversals(dtype, weights_of(dtype), operators=("+", "+")),
            *traversals(
                dtype,
                weights_of(dtype),
                operators=(lambda a, b: np.maximum(a, b), "+"),
                above=0,
                left=0,
                corner=0,
            ),
        ]
        for dtype in ("f4", "f8", "i4", "i8")
    },
    **{
        f"alignments, {mode}": [
            lambda side=side, dtype=dtype, scores=scores, mode=mode: mgrec.smith_waterman(
                side(dtype), side(dtype), mode=mode, **scores
            )
            for dtype, scores in SCORES
            for side in (pairs_of, lambda dtype: on_gpu(9000, dtype))
        ]
        for mode in ("local", "global", "semi-global")
    },
    **{
        f"tables, {dtype}": [
            lambda shape=shape, dtype=dtype: mgrec.summed_area_table(on_gpu(shape, dtype)) for shape in IMAGES
        ]
        for dtype in "bhilBHIL"
    },
    "matrices": [
        lambda scores=scores, dtype=dtype: mgrec.smith_waterman(
            on_gpu(900, dtype), on_gpu(900, dtype), output="matrix", **scores
        )
        for dtype, scores in SCORES
    ],
}


def marked(name: str, architecture: int) -> Any:
    """Two architectures suffice where kernels ask for the same of all of them."""
    is_short = name in CALLS and (architecture in (75, 90) or name in ("rows", "columns", "chunks"))
    return pytest.param(name, architecture, marks=() if is_short else extended)


@pytest.mark.parametrize(("name", "architecture"), [marked(*case) for case in product(CALLS | MORE, DEVICES)])
def test_programs_compile(
    name: str, architecture: int, compile_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = DEVICES[architecture]
    programs = programs_of(monkeypatch, device, *(CALLS | MORE)[name])
    assert programs
    for text, shared_bytes in programs.items():
        assert shared_bytes <= device.shared_bytes
        compile_text(text, architecture)


@pytest.mark.parametrize("architecture", DEVICES)
@pytest.mark.parametrize("dtype", [*FLOATS, *NARROW])
def test_products_of_addresses_compile(dtype: Any, architecture: int, compile_text: Any) -> None:
    compile_text(coefficients.describe_product(np.dtype(dtype)).text, architecture)


def test_a_broken_kernel_is_noticed(compile_text: Any) -> None:
    with pytest.raises(AssertionError, match="undefined"):
        compile_text("__global__ void broken() { unknown(); }", 90)

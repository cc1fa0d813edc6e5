"""What CUDA graphs capture of each public function, and why they do not capture the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgrec
from mgrec.signal import ewm, filtfilt, lfilter, sosfilt, sosfiltfilt

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = [pytest.mark.gpu, pytest.mark.hardware]

Call = Callable[[Any], Any]
SECTIONS = [[1, 0.5, 0.1, 1, -0.5, 0.2]]
NUMBER, SHARED = "every launch needs a number of its own", "memory that is of one call alone"


def draw(*shape: int) -> Any:
    return cupy.asarray(np.random.default_rng(3).uniform(-0.9, 0.9, shape).astype("f4"))


def calls() -> tuple[dict[str, tuple[Any, Call]], dict[str, tuple[str, Call]]]:
    """What is captured, by the shape of its result, and what is refused, by the reason."""
    long, many, states = draw(2**16), draw(20_000, 24), draw(20_000)
    wide, image = draw(300, 400), draw(40, 50)
    captured: dict[str, tuple[Any, Call]] = {
        "many rows": (many, lambda out: mgrec.linear_recurrence(0.5, many, states, out=out)),
        "rational": (many, lambda out: mgrec.rational_recurrence(1, 2, 1, many, 1.0, out=out)),
        "scan": (many, lambda out: mgrec.scan(mgrec.maps.max_plus, many, 0.0, initial=0.0, out=out)),
        "a small table": (image, lambda out: mgrec.summed_area_table(image, out=out)),
        "low grids": (image, lambda out: mgrec.sor(image, sweeps=5, out=out)),
    }
    refused: dict[str, tuple[str, Call]] = {
        "a long row": (NUMBER, lambda out: mgrec.linear_recurrence(long, long)),
        "states in host memory": (
            "copied",
            lambda out: mgrec.linear_recurrence(0.5, many, np.zeros(20_000, "f4")),
        ),
        "p-scheme": (SHARED, lambda out: mgrec.linear_recurrence(long, long, method="p-scheme")),
        "lfilter": (SHARED, lambda out: lfilter([1.0], [1.0, -0.5], many)),
        "lfilter from states": (SHARED, lambda out: lfilter([1.0], [1.0, -0.5], long, zi=np.zeros(1))),
        "sosfilt": (SHARED, lambda out: sosfilt(SECTIONS, long)),
        "filtfilt": ("initial states", lambda out: filtfilt([1.0], [1.0, -0.5], long)),
        "sosfiltfilt": ("initial states", lambda out: sosfiltfilt(SECTIONS, long)),
        "ewm": ("missing values", lambda out: ewm(long, alpha=0.1)),
        "solve_tridiagonal": ("host waits", lambda out: mgrec.solve_tridiagonal(1, 4, 1, long)),
        "thomas": ("host waits", lambda out: mgrec.solve_tridiagonal(1, 4, 1, wide, method="thomas")),
        "weighted_scan": (NUMBER, lambda out: mgrec.weighted_scan(long, 0.5)),
        "wavefront": (NUMBER, lambda out: mgrec.wavefront(wide, weights=(0.4, 0.3, 0.2))),
        "a large table": (NUMBER, lambda out: mgrec.summed_area_table(wide)),
        "high grids": (NUMBER, lambda out: mgrec.sor(wide, sweeps=5)),
        "sweeps with tol": ("host reads", lambda out: mgrec.sor(image, sweeps=5, tol=1e-3)),
        "smith_waterman": (
            "capturing",
            lambda out: mgrec.smith_waterman(codes, codes, match=2, mismatch=-1, gap=-2),
        ),
    }
    codes = cupy.arange(100, dtype=np.uint8) % 4
    return captured, refused


CAPTURED, REFUSED = calls() if cupy.cuda.is_available() else ({}, {})


def capture(stream: Any, call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The graph of a call, and what the call raised."""
    error = None
    stream.begin_capture()
    try:
        call()
    except Exception as raised:
        error = raised
    finally:
        graph = stream.end_capture()
    return graph, error


@pytest.mark.parametrize("name", CAPTURED)
def test_a_graph_repeats_a_call(name: str) -> None:
    like, call = CAPTURED[name]
    out, wanted = cupy.empty_like(like), call(cupy.empty_like(like)).copy()
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        call(out)  # compiles
        stream.synchronize()
        graph, error = capture(stream, lambda: call(out))
        assert error is None
        bystander = [cupy.zeros(like.size, "f4") for _ in range(8)]
        for _ in range(2):
            out.fill(np.nan)
            graph.launch(stream)
            stream.synchronize()
            assert bool((out == wanted).all())
        # A graph writes into nothing that was given back when the call returned.
        assert not any(bool(array.any()) for array in bystander)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_cannot_repeat_is_refused(name: str) -> None:
    reason, call = REFUSED[name]
    wanted = call(None)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        call(None)
        stream.synchronize()
        for _ in range(2):
            _, error = capture(stream, lambda: call(None))
            assert isinstance(error, RuntimeError)
            assert reason in str(error)
        again = call(None)  # the stream is as it was
        stream.synchronize()
    if name != "smith_waterman":
        wanted, again = (x[0] if isinstance(x, tuple) else x for x in (wanted, again))
        assert bool((wanted == again).all())

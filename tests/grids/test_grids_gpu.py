"""What holds for sweeps and for summed-area tables of CuPy arrays."""

import numpy as np
import pytest
from grid_arrays import numbers

import mgrec

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.gpu


def sweep(x, **options):
    return mgrec.sor(x, **({"omega": 1.5, "sweeps": 4} | options))


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (sweep, {}),
        (sweep, {"tol": 1.0}),
        (mgrec.summed_area_table, {}),
        (mgrec.wavefront, {"weights": (0.5, 0.25, 1.0)}),
    ],
)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 2, 3), (0, 4, 4), (4, 0, 0)])
def test_empty(shape, function, options):
    result = function(cupy.ones(shape), **options)
    assert isinstance(result, cupy.ndarray)
    np.testing.assert_array_equal(result.get(), np.ones(shape))


@pytest.mark.parametrize("function", [sweep, mgrec.summed_area_table])
def test_out(function):
    x = cupy.asarray(numbers((500, 700), "f4"))
    out = cupy.full(x.shape, np.nan, "f4")
    assert function(x, out=out) is out
    assert bool((out == function(x)).all())


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("function", "shape", "options"),
    [
        *((sweep, (3000, 5000), {"sweeps": sweeps}) for sweeps in (1, 4, 16)),
        *(
            (mgrec.summed_area_table, shape, {})
            for shape in ((2000, 20_000), (20_000, 2000), (20_000, 40, 40))
        ),
    ],
)
def test_the_same_input_gives_the_same_bits(function, shape, options):
    x = cupy.random.default_rng(1).standard_normal(shape, dtype="f4")
    first = function(x, **options)
    for _ in range(20):
        assert bool((function(x, **options) == first).all())


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [(sweep, (1100, 300), "f4"), (mgrec.summed_area_table, (3000, 1030), "u1")],
)
def test_streams_have_edges_of_their_own(function, shape, dtype):
    x = numbers(shape, dtype, scale=90)
    given, wanted = cupy.asarray(x), function(x)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    cupy.cuda.get_current_stream().synchronize()
    found = []
    for number in range(20):
        with streams[number % 4]:
            found.append(function(given))
    cupy.cuda.Device().synchronize()
    for result in found:
        np.testing.assert_array_equal(result.get(), wanted)


@pytest.mark.hardware
@pytest.mark.parametrize(
    ("function", "shape", "options", "message"),
    [
        (sweep, (50, 60), {}, ""),
        (sweep, (1000, 60), {}, "sweeps over grids of 1000 rows, 4 at a time, cannot be captured"),
        (sweep, (50, 60), {"tol": 1e-3}, "sweeps with tol cannot be captured"),
        (mgrec.summed_area_table, (50, 60, 60), {}, ""),
        (mgrec.summed_area_table, (1000, 1000), {}, "cannot be captured into a CUDA graph"),
    ],
)
def test_a_graph_captures_grids_of_one_strip_without_tol(function, shape, options, message):
    x = cupy.asarray(numbers(shape, "f4"))
    out, wanted = cupy.empty_like(x), function(x, **options)
    cupy.cuda.get_current_stream().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        function(x, out=out, **options)
        stream.synchronize()
        stream.begin_capture()
        try:
            if message:
                with pytest.raises(RuntimeError, match=message):
                    function(x, out=out, **options)
            else:
                function(x, out=out)
        finally:
            graph = stream.end_capture()
        for _ in range(0 if message else 2):
            out.fill(np.nan)
            graph.launch(stream)
            stream.synchronize()
            assert bool((out == wanted).all())

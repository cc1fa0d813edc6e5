"""lfilter and sosfilt give SciPy's results: every shape, dtype, axis and chunking."""

import dask
import dask.array as da
import numpy as np
import pytest
from graphs import check_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from mgrec.signal import lfilter, sosfilt

EXTENDED = pytest.mark.extended
SHAPES = [
    ((50,), -1), ((200,), 0), ((4, 70), 1), ((70, 4), 0), ((70, 20), 0), ((3, 40, 5), 1),
    ((2, 3, 70), 2), ((1,), 0), ((2, 1), 1),
]  # fmt: skip
POLYNOMIALS = {
    "order 1": ([0.5, 0.5], [1.0, -0.9]),
    "order 2": signal.butter(2, 0.3),
    "order 5, high": signal.butter(5, 0.2, "high"),
    "order 12": (np.arange(1.0, 5), [1, *(0.3 / np.arange(1.0, 13))]),
    "order 64": ([1.0], [1, *(0.4 / np.arange(1.0, 65))]),
    "a[0] is 2": ([1.0, 3.0], [2.0, -1.0, 0.3]),
    "long b": (np.arange(6.0), [1.0, -0.5]),
    "FIR": ([1.0, 2.0, 3.0], [2.0]),
    "gain": ([3.0], [2.0]),
    "complex": ([1, 0.5j], [1, 0.2 - 0.3j, 0.1j]),
}


DTYPES = ["f4", "f8", "c8", "c16"]
# What takes seconds to compile.
LONG = {"order 12", "order 64"}


def with_dtypes(names, others):
    """All names in float64, and in `others` of them the other dtypes: each is compiled again."""
    pairs = [(name, dtype) for name in names for dtype in DTYPES]
    return [
        pytest.param(*pair, marks=() if is_short else EXTENDED)
        for pair in pairs
        for is_short in [pair[0] in others or (pair[1] == "f8" and pair[0] not in LONG)]
    ]


def sections(count):
    return signal.butter(2 * count, 0.3, output="sos")


def draw(shape, dtype, seed=7):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def in_chunks(x, parts=3):
    return da.from_array(x, chunks=tuple(-(-n // parts) for n in x.shape))


def assert_same(computed, wanted):
    for part in computed:
        if isinstance(part, da.Array):
            check_graph(part)
    computed = tuple(part.compute() if isinstance(part, da.Array) else part for part in computed)
    for have, want in zip(computed, wanted, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        unit = np.finfo(want.dtype).eps
        size = np.abs(want).max(initial=1)
        np.testing.assert_allclose(have, want, rtol=0, atol=1e5 * unit * size)


@pytest.mark.parametrize(("name", "dtype"), with_dtypes(POLYNOMIALS, ["order 2", "complex"]))
def test_lfilter_is_scipys(name, dtype):
    kind = np.complex64 if name == "complex" else np.float32
    single = dtype in ("f4", "c8")
    b, a = (np.asarray(part, kind if single else None) for part in POLYNOMIALS[name])
    for shape, axis in SHAPES:
        x = draw(shape, dtype)
        of_states = list(shape)
        of_states[axis] = max(len(a), len(b)) - 1
        zi = draw(of_states, dtype, seed=8)
        assert_same([lfilter(b, a, x, axis)], [signal.lfilter(b, a, x, axis)])
        wanted = signal.lfilter(b, a, x, axis, zi)
        assert_same(lfilter(b, a, x, axis, zi), wanted)
        assert_same(lfilter(b, a, in_chunks(x), axis, zi), wanted)


@pytest.mark.parametrize(
    ("count", "dtype"),
    [
        *with_dtypes([1, 3], [3]),
        *(pytest.param(count, "f8", marks=EXTENDED) for count in (2, 4, 5, 8, 9, 16, 32)),
    ],
)
def test_sosfilt_is_scipys(count, dtype):
    sos = sections(count).astype("f4" if dtype in ("f4", "c8") else "f8")
    for shape, axis in SHAPES:
        x = draw(shape, dtype)
        of_states = [count, *shape]
        of_states[1 + axis % len(shape)] = 2
        zi = draw(of_states, dtype, seed=8)
        wanted = signal.sosfilt(sos, x, axis, zi)
        assert_same(sosfilt(sos, x, axis, zi), wanted)
        assert_same(sosfilt(sos, in_chunks(x), axis, zi), wanted)
        assert_same([sosfilt(sos, x, axis)], [signal.sosfilt(sos, x, axis)])


@pytest.mark.slow
# An example builds and runs two graphs of up to 12 chunks.
@settings(max_examples=max(12, settings().max_examples // 4))
@given(
    lengths=st.lists(st.integers(0, 90), min_size=1, max_size=12).filter(lambda v: sum(v) > 0),
    # Each order and count is compiled for itself, which takes seconds: those of other tests.
    order=st.sampled_from([0, 1, 2, 5, 12, 20] if settings().max_examples > 25 else [1, 2, 12]),
    count=st.sampled_from([1, 3, 9] if settings().max_examples > 25 else [3]),
)
def test_any_chunking_gives_the_same(lengths, order, count):
    x = draw(sum(lengths), float)
    chunked = da.from_array(x, chunks=(tuple(lengths),))
    a = np.array([1.0, *(0.4 / np.arange(1, order + 1))])
    zi = np.linspace(-1, 1, max(order, 2))
    with_state = signal.lfilter([1.0, 0.5, 0.25], a, x, zi=zi)
    assert_same(lfilter([1.0, 0.5, 0.25], a, chunked, zi=zi), with_state)
    sos, zi = sections(count), np.ones((count, 2))
    assert_same(sosfilt(sos, chunked, zi=zi), signal.sosfilt(sos, x, zi=zi))


@pytest.mark.parametrize(
    "length", [0, 1, 2, 7, 8, 9, 63, 64, 65, 1023, 1024, 1025, 1040, 4096, 5000]
)
@pytest.mark.parametrize("name", ["order 1", "order 5, high", "order 12", "long b", "FIR"])
def test_every_length(name, length):
    b, a = POLYNOMIALS[name]
    x = draw(length, float)
    zi = draw(max(len(a), len(b)) - 1, float, seed=8)
    wanted = signal.lfilter(b, a, x, zi=zi) if length else (x, zi)
    assert_same(lfilter(b, a, x, zi=zi), wanted)
    wanted = signal.sosfilt(sections(6), x, zi=np.ones((6, 2))) if length else (x, np.ones((6, 2)))
    assert_same(sosfilt(sections(6), x, zi=np.ones((6, 2))), wanted)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_empty_arrays(shape, axis):
    x = np.empty(shape)
    of_states = list(shape)
    of_states[axis] = 2
    zi = np.ones(of_states)
    for data in (x, da.from_array(x)):
        y, zf = lfilter([1.0], [1.0, 0.5, 0.2], data, axis, zi)
        assert np.asarray(y).shape == shape
        np.testing.assert_array_equal(np.asarray(zf), zi)


@pytest.mark.parametrize("kind", ["strided", "read-only", "big-endian", "integer", "transposed"])
def test_layouts(kind):
    x = draw((6, 80), float)
    made = {
        "strided": x[::2, ::-3],
        "read-only": x.copy(),
        "big-endian": x.astype(">f8"),
        "integer": (10 * x).astype("i2"),
        "transposed": x.T,
    }[kind]
    made.flags.writeable = kind != "read-only"
    b, a = POLYNOMIALS["order 2"]
    assert_same([lfilter(b, a, made)], [signal.lfilter(b, a, made)])
    assert_same([sosfilt(sections(3), made)], [signal.sosfilt(sections(3), made)])


def test_states_of_one_row_serve_all_rows():
    b, a = POLYNOMIALS["order 5, high"]
    x, zi = draw((4, 60), float), draw((1, 5), float)
    wanted = signal.lfilter(b, a, x, zi=zi)
    assert_same(lfilter(b, a, x, zi=zi), wanted)
    assert_same(lfilter(b, a, in_chunks(x), zi=zi), wanted)
    assert_same(lfilter(b, a, in_chunks(x), zi=da.from_array(zi)), wanted)
    assert_same(lfilter(b, a, x, zi=da.from_array(zi)), wanted)


def test_two_threads_agree_with_one(monkeypatch):
    from mgrec.engines.cpu import threads

    monkeypatch.setattr(threads, "MIN_STEPS_FOR_THREADS", 1 << 12)
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    cases = [draw(50_000, float), draw((2, 30_000), float), draw((7, 5_000), "f4"),
             draw((5_000, 40), float), draw(40_000, "c16")]  # fmt: skip
    for x in cases:
        axis = 0 if x.shape[-1] == 40 else -1
        b, a = POLYNOMIALS["order 5, high"]
        assert_same([lfilter(b, a, x, axis)], [signal.lfilter(b, a, x, axis)])
        assert_same([sosfilt(sections(4), x, axis)], [signal.sosfilt(sections(4), x, axis)])
    slow = ([1.0], [1.0, -1.0])  # it forgets nothing
    assert_same([lfilter(*slow, cases[0])], [signal.lfilter(*slow, cases[0])])


def test_a_lone_impulse_dies_out_as_in_scipy(monkeypatch):
    """The head of a thread's piece is followed as long as it counts among what is there."""
    from mgrec.engines.cpu import threads

    monkeypatch.setattr(threads, "MIN_STEPS_FOR_THREADS", 1 << 12)
    monkeypatch.setenv("MGREC_NUM_THREADS", "2")
    x = np.zeros(20_000)
    x[9_900] = 1
    b, a = [1.0], [1.0, -0.9]
    wanted = signal.lfilter(b, a, x)
    np.testing.assert_allclose(lfilter(b, a, x), wanted, rtol=1e-11, atol=1e-300)
    chunked = lfilter(b, a, da.from_array(x, chunks=999)).compute()
    np.testing.assert_allclose(chunked, wanted, rtol=1e-11, atol=1e-300)


UNSTABLE = {
    "real pole": ([1.0], [1.0, -1.5]),
    "complex poles": ([1.0, 0.3], [1.0, -1.0, 2.0]),
    "order 5": ([1.0], [1.0, 0.0, 0.0, 0.0, 0.0, -3.0]),
}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "f8") for name in UNSTABLE),
        ("complex poles", "f4"),
        *(pytest.param(name, "f4", marks=EXTENDED) for name in ("real pole", "order 5")),
    ],
)
@pytest.mark.parametrize("chunks", [None, pytest.param(700, marks=EXTENDED), 97])
def test_an_unstable_filter_gives_what_scipy_gives(name, dtype, chunks):
    b, a = (np.array(part, dtype) for part in UNSTABLE[name])
    x = draw(4000, dtype)
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    y = np.asarray(lfilter(b, a, x if chunks is None else da.from_array(x, chunks=chunks)))
    for find in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(find(y), find(wanted))
    finite = np.isfinite(wanted)
    assert 0 < finite.sum() < finite.size
    np.testing.assert_allclose(y[finite], wanted[finite], rtol=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_stand_where_scipy_has_them(value):
    x = draw(3000, float)
    x[1500] = value
    for b, a in (POLYNOMIALS["order 2"], POLYNOMIALS["order 12"], POLYNOMIALS["FIR"]):
        with np.errstate(all="ignore"):
            wanted = signal.lfilter(b, a, x)
        for data in (x, da.from_array(x, chunks=400)):
            np.testing.assert_allclose(np.asarray(lfilter(b, a, data)), wanted, rtol=1e-10)
    with np.errstate(all="ignore"):
        wanted = signal.sosfilt(sections(3), x)
    for data in (x, da.from_array(x, chunks=400)):
        np.testing.assert_allclose(np.asarray(sosfilt(sections(3), data)), wanted, rtol=1e-9)


def test_chunks_of_unknown_sizes():
    x = draw(500, float)
    some = da.from_array(x, chunks=90)
    some = some[some > -1]
    b, a = POLYNOMIALS["order 2"]
    wanted = signal.lfilter(b, a, x[x > -1], zi=np.ones(2))
    assert_same(lfilter(b, a, some, zi=np.ones(2)), wanted)


def test_states_of_sections_in_empty_chunks():
    x, sos = draw((3, 1, 8), float), signal.butter(4, 0.3, output="sos")
    zi = draw((2, 3, 1, 2), float)
    wanted = signal.sosfilt(sos, x, zi=zi)
    lazy = da.from_array(x, chunks=((2, 0, 1), (0, 1, 0), (3, 0, 5)))
    for states in (zi, da.from_array(zi, chunks=((0, 2), (1, 2), (0, 1), (1, 0, 1)))):
        computed = dask.compute(*sosfilt(sos, lazy, zi=states), scheduler="sync")
        for got, want in zip(computed, wanted, strict=True):
            assert_same(got, want)


def test_dask_stays_lazy_and_its_keys_are_repeatable():
    def fail(block):
        raise AssertionError("computed while the graph was built")

    x = da.ones(1000, chunks=100).map_blocks(fail, dtype=float, meta=np.empty(0))
    y, zf = lfilter([1.0], [1.0, -0.5], x, zi=np.zeros(1))
    again, _ = lfilter([1.0], [1.0, -0.5], x, zi=np.zeros(1))
    assert isinstance(zf, da.Array)
    assert y.name == again.name
    assert y.chunks == x.chunks
    assert y.name != lfilter([1.0], [1.0, -0.4], x, zi=np.zeros(1))[0].name


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([], [1.0], [1.0]), ValueError, "b is not a non-empty 1d array"),
        (([1.0], np.eye(2), [1.0]), ValueError, "a is not a non-empty 1d array"),
        (([1.0], [0.0, 1.0], [1.0]), ValueError, r"a\[0\] must not be 0"),
        (([1.0], [1.0, 0.5], 3.0), ValueError, "at least 1-D"),
        (([1.0], [1.0, 0.5], [1.0], 1), ValueError, "axis must be from -1 to 0"),
        (([1.0], [1.0, 0.5], np.ones((2, 3)), -1, np.ones((3, 1))), ValueError, "zi"),
        (([1.0], [1.0, 0.5], np.ones(3), -1, np.ones((1, 1))), ValueError, "zi"),
        (([1], [1, 2], np.arange(3)), NotImplementedError, "int64"),
        (([1.0], [1.0], np.ones(3, "g")), TypeError, "x must be .* (longdouble|float128)"),
        (([1.0], [1.0], np.ma.ones(3)), TypeError, "masked"),
    ],
)
def test_what_lfilter_refuses(arguments, error, words):
    with pytest.raises(error, match=words):
        lfilter(*arguments)


@pytest.mark.parametrize(
    ("sos", "zi", "words"),
    [
        (np.ones((2, 5)), None, r"shape \(n_sections, 6\); got \(2, 5\)"),
        (2 * np.ones((1, 6)), None, "should be all ones"),
        (np.ones((1, 6)), np.ones((1, 3)), "Invalid zi shape"),
    ],
)
def test_what_sosfilt_refuses(sos, zi, words):
    with pytest.raises(ValueError, match=words):
        sosfilt(sos, np.ones(5), zi=zi)

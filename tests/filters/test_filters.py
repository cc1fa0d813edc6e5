"""lfilter and sosfilt give SciPy's results: every shape, dtype, axis, chunking and device."""

from functools import partial
from itertools import product

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from graphs import fetched
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import compile_for_sizes, divide_among_threads, record_threads
from scipy import signal

from mgrec.signal import lfilter, sosfilt

EXTENDED, GPU, SLOW = pytest.mark.extended, pytest.mark.gpu, pytest.mark.slow
SHAPES = [
    ((50,), -1), ((200,), 0), ((4, 70), 1), ((70, 4), 0), ((70, 20), 0), ((3, 40, 5), 1),
    ((2, 3, 70), 2), ((1,), 0), ((2, 1), 1),
]  # fmt: skip
POLYNOMIALS = {
    "order 1": ([0.5, 0.5], [1.0, -0.9]),
    "order 2": signal.butter(2, 0.3),
    "order 3, high": signal.butter(3, 0.3, "high"),
    "order 5, high": signal.butter(5, 0.2, "high"),
    "order 12": (np.arange(1.0, 5), [1, *(0.3 / np.arange(1.0, 13))]),
    "order 64": ([1.0], [1, *(0.4 / np.arange(1.0, 65))]),
    "a[0] is 2": ([1.0, 3.0], [2.0, -1.0, 0.3]),
    "long b": (np.arange(13.0), [1.0, -0.5]),
    "FIR": ([1.0, 2.0, 3.0], [2.0]),
    "gain": ([3.0], [2.0]),
    "complex": ([1, 0.5j], [1, 0.2 - 0.3j, 0.1j]),
}


DTYPES = ["f4", "f8", "c8", "c16"]
# What takes seconds to compile.
LONG = {"order 1", "order 3, high", "order 5, high", "order 12", "order 64", "long b", "complex"}


def on_each_device(names, *others):
    """On the host all names in float64, and `others` (name, dtype): each is compiled again."""
    for name in names:
        for dtype in DTYPES:
            is_short = (name, dtype) in others or (dtype == "f8" and name not in LONG)
            yield pytest.param("host", name, dtype, marks=() if is_short else EXTENDED)
            marks = [GPU, SLOW] if name == "order 64" else GPU
            yield pytest.param("gpu", name, dtype, marks=marks)


def sections(count):
    return signal.butter(2 * count, 0.3, output="sos")


def draw(shape, dtype, seed=7):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def in_chunks(x, parts=3):
    return da.from_array(x, chunks=tuple(max(1, -(-n // parts)) for n in x.shape), asarray=False)


def assert_same(computed, wanted, xp=np):
    for have, want in zip(computed, wanted, strict=True):
        have = fetched(have, xp)
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        size = np.abs(want).max(initial=1)
        np.testing.assert_allclose(have, want, rtol=0, atol=1e5 * np.finfo(want.dtype).eps * size)


def assert_places_are_scipys(y, wanted, kinds=(np.isnan, np.isposinf, np.isneginf)):
    """nan, inf and -inf stand where SciPy has them, and other numbers are near."""
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(np.isfinite(y), finite)
    parts = [np.ascontiguousarray(array).view(array.real.dtype) for array in (y, wanted)]
    for find in kinds:
        np.testing.assert_array_equal(*map(find, parts))
    np.testing.assert_allclose(y[finite], wanted[finite], rtol=1e-3)


@pytest.mark.parametrize(
    ("xp", "name", "dtype"),
    # Complex filters are compared in test_filters_complex.py, without states.
    [*on_each_device(POLYNOMIALS)],
    indirect=["xp"],
)
def test_lfilter_is_scipys(name, dtype, xp):
    kind = np.complex64 if name == "complex" else np.float32
    b, a = (np.asarray(p, kind if dtype in ("f4", "c8") else None) for p in POLYNOMIALS[name])
    longer = [] if xp is np else [((5_000, 3), 0), ((3, 4_001), 1), ((2, 300, 50), 1)]
    for shape, axis in SHAPES + longer:
        x, of_states = draw(shape, dtype), list(shape)
        of_states[axis] = max(len(a), len(b)) - 1
        zi, data = draw(of_states, dtype, seed=8), xp.asarray(x)
        assert_same([lfilter(b, a, data, axis)], [signal.lfilter(b, a, x, axis)], xp)
        wanted = signal.lfilter(b, a, x, axis, zi)
        assert_same(lfilter(b, a, data, axis, xp.asarray(zi)), wanted, xp)
        for signal_ in (data, in_chunks(data)):
            assert_same(lfilter(b, a, signal_, axis, zi), wanted, xp)


@pytest.mark.parametrize(
    ("xp", "count", "dtype"),
    [
        *on_each_device([1, 3]),
        *(pytest.param("host", count, "f8", marks=EXTENDED) for count in (2, 4, 5, 8, 9, 16, 32)),
        *(pytest.param("gpu", *case, marks=GPU) for case in product([2, 8], DTYPES)),
        *(pytest.param("gpu", 32, dtype, marks=[GPU, SLOW]) for dtype in DTYPES),
    ],
    indirect=["xp"],
)
def test_sosfilt_is_scipys(count, dtype, xp):
    sos = sections(count).astype("f4" if dtype in ("f4", "c8") else "f8")
    for shape, axis in SHAPES:
        x, of_states = draw(shape, dtype), [count, *shape]
        of_states[1 + axis % len(shape)] = 2
        zi, data = draw(of_states, dtype, seed=8), xp.asarray(x)
        wanted = signal.sosfilt(sos, x, axis, zi)
        assert_same(sosfilt(sos, data, axis, xp.asarray(zi)), wanted, xp)
        assert_same(sosfilt(sos, in_chunks(data), axis, in_chunks(xp.asarray(zi))), wanted, xp)
        assert_same([sosfilt(sos, data, axis)], [signal.sosfilt(sos, x, axis)], xp)


def test_a_section_that_is_left_out_is_noticed():
    x = draw(500, float)
    with pytest.raises(AssertionError):
        assert_same([sosfilt(sections(3)[:-1], x)], [signal.sosfilt(sections(3), x)])


@pytest.mark.slow
# An example builds and runs two graphs of up to 12 chunks.
@settings(max_examples=max(6, settings().max_examples // 4))
@given(
    lengths=st.lists(st.integers(0, 90), min_size=1, max_size=12).filter(lambda v: sum(v) > 0),
    # Each order and count is compiled for itself, which takes seconds: those of other tests.
    order=st.sampled_from([0, 1, 2, 5, 12, 20] if settings().max_examples > 25 else [2, 12]),
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


LENGTHS = [
    0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 1040, 4095, 4097, 5000, 8191, 8193,
    100_003,
]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    with_extended(["order 1", "order 2", "order 3, high", "order 12", "long b", "FIR"],
                  "order 1", "order 3, high", "long b"),
)  # fmt: skip
def test_every_length(name, xp):
    b, a = POLYNOMIALS[name]
    zi = draw(max(len(a), len(b)) - 1, float, seed=8)
    for length in LENGTHS:
        x = draw(length, float)
        y, zf = signal.lfilter(b, a, x, zi=zi) if length else (x, zi)
        assert_same(lfilter(b, a, xp.asarray(x), zi=zi), (y, zf), xp)
        columns, states = (np.tile(part[:, None], 2) for part in (x, zi))
        wanted = [np.tile(part[:, None], 2) for part in (y, zf)]
        assert_same(lfilter(b, a, xp.asarray(columns), 0, zi=states), wanted, xp)


@pytest.mark.parametrize("count", with_extended([3, 6, 2, 4, 9], 6, 2, 4, 9))
def test_every_length_of_sections(count, xp):
    zi = draw((count, 2), float, seed=8)
    for length in LENGTHS:
        x = draw(length, float)
        wanted = signal.sosfilt(sections(count), x, zi=zi) if length else (x, zi)
        assert_same(sosfilt(sections(count), xp.asarray(x), zi=zi), wanted, xp)


@pytest.mark.parametrize("name", ["order 2", "order 12", "FIR"])
@pytest.mark.parametrize("steps", [1_003, 140_003])
def test_columns_and_integers_have_the_bits_of_rows(name, steps):
    """They are filtered by copies, at once or tile by tile."""
    x = (100 * draw((3, steps), float)).astype("i2")
    rows = x.astype(float)
    rows[1, 70] = 1e300  # SciPy's loop decides what overflows
    rows[2, 90] = np.inf
    columns, integers = rows.T.copy(), x[:1]
    wanted = lfilter(*POLYNOMIALS[name], rows)
    for _ in range(3):  # later calls are prepared
        np.testing.assert_array_equal(lfilter(*POLYNOMIALS[name], columns, 0).T, wanted)
        np.testing.assert_array_equal(lfilter(*POLYNOMIALS[name], integers), wanted[:1])


@pytest.mark.parametrize("count", [4, 9])
def test_repeated_calls_of_complex_columns(count):
    x = draw((90, 2), complex)
    zi = draw((count, 2, 2), complex, seed=8)
    wanted = signal.sosfilt(sections(count), x, 0, zi=zi)
    for _ in range(3):
        assert_same(sosfilt(sections(count), x, 0, zi=zi), wanted)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (100, 0)])
@pytest.mark.parametrize("axis", [0, 1])
def test_empty_arrays(shape, axis):
    x = np.empty(shape)
    for _ in range(3):  # later calls are prepared
        assert lfilter([1.0], [1.0, 0.5], x, axis).shape == shape
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
    b, a = POLYNOMIALS["order 2"]
    x, zi = draw((4, 60), float), draw((1, 2), float)
    wanted = signal.lfilter(b, a, x, zi=zi)
    assert_same(lfilter(b, a, x, zi=zi), wanted)
    assert_same(lfilter(b, a, in_chunks(x), zi=zi), wanted)
    assert_same(lfilter(b, a, in_chunks(x), zi=da.from_array(zi)), wanted)
    assert_same(lfilter(b, a, x, zi=da.from_array(zi)), wanted)


@pytest.fixture
def three_threads(monkeypatch):
    divide_among_threads(monkeypatch, 1 << 12)
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")


@pytest.mark.usefixtures("three_threads")
def test_several_threads_agree_with_one():
    cases = [
        draw(50_000, float),
        draw((2, 30_000), float),
        draw((7, 5_000), "f4"),
        draw((5_000, 40), float),
        draw(40_000, "c16"),
    ]
    for x in cases:
        axis = 0 if x.shape[-1] == 40 else -1
        b, a = POLYNOMIALS["order 2"]
        assert_same([lfilter(b, a, x, axis)], [signal.lfilter(b, a, x, axis)])
        assert_same([sosfilt(sections(3), x, axis)], [signal.sosfilt(sections(3), x, axis)])
    slow = ([1.0], [1.0, -1.0])  # it forgets nothing
    assert_same([lfilter(*slow, cases[0])], [signal.lfilter(*slow, cases[0])])


@pytest.mark.usefixtures("three_threads")
def test_threads_share_the_columns_of_a_step(monkeypatch):
    found, order_2 = record_threads(monkeypatch), POLYNOMIALS["order 2"]
    overflowing = draw((600, 40), float)
    overflowing[300, 20] = 1e305
    for solve, x, count in [
        (partial(sosfilt, sections(3)), draw((600, 40), "f4"), 3),
        (partial(sosfilt, sections(3)), draw((600, 20), "c16"), 3),
        (partial(sosfilt, sections(3)), overflowing, 3),
        (partial(lfilter, *order_2), draw((20, 1000), float), 3),
        (partial(lfilter, *order_2), draw((600, 40), float), None),
        (partial(sosfilt, sections(3)), draw((800, 8), float), None),
    ]:
        found.clear()
        y = solve(x, 0)
        assert found[:1] == ([] if count is None else [count])
        with monkeypatch.context() as patch:
            patch.setenv("MGREC_NUM_THREADS", "1")
            np.testing.assert_array_equal(y, solve(x, 0))


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(
    ("place", "size"), [(9_900, 1), *((n, 1e30) for n in (900, 1000, 1023, 9_900, 19_990))]
)
def test_a_lone_impulse_dies_out_as_in_scipy(place, size, xp):
    """The head of a thread's piece is followed as long as it counts among what is there."""
    x = np.zeros(20_000)
    x[place] = size
    b, a = [1.0], [1.0, -0.9]
    wanted = signal.lfilter(b, a, x)
    for data in [xp.asarray(x), *([da.from_array(x, chunks=999)] if xp is np else [])]:
        y = fetched(lfilter(b, a, data), xp)
        np.testing.assert_allclose(y, wanted, rtol=1e-11, atol=1e-300)


UNSTABLE = {
    "real pole": ([1.0], [1.0, -1.5]),
    "complex poles": ([1.0, 0.3], [1.0, -1.0, 2.0]),
    "order 5": ([1.0], [1.0, 0.0, 0.0, 0.0, 0.0, -3.0]),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", UNSTABLE)
@pytest.mark.parametrize(
    "xp", [pytest.param("host", marks=EXTENDED), pytest.param("gpu", marks=GPU)], indirect=True
)
def test_an_unstable_filter_gives_what_scipy_gives(name, dtype, xp):
    b, a = (np.array(part, dtype) for part in UNSTABLE[name])
    x = draw(4000, dtype)
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    assert 0 < np.isfinite(wanted).sum() < wanted.size
    data = xp.asarray(x)
    chunked = [da.from_array(data, chunks=length, asarray=False) for length in (700, 97)]
    for signal_ in (data, *(chunked if xp is np else chunked[:1])):
        assert_places_are_scipys(fetched(lfilter(b, a, signal_), xp), wanted)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_stand_where_scipy_has_them(value, xp):
    x = draw(3000 if xp is np else 30_000, float)
    x[x.size // 2] = value
    calls = [(lfilter, signal.lfilter, POLYNOMIALS[n]) for n in ("order 2", "order 12", "FIR")]
    calls += [(sosfilt, signal.sosfilt, (sections(3),))] if xp is np else []
    for solve, scipys, filter_ in calls:
        with np.errstate(all="ignore"):
            wanted = scipys(*filter_, x)
        for data in [xp.asarray(x), *([da.from_array(x, chunks=400)] if xp is np else [])]:
            np.testing.assert_allclose(fetched(solve(*filter_, data), xp), wanted, rtol=1e-8)


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
    ("order", "frequency", "dtype"),
    [
        pytest.param(2, 0.2, float, id="blocks"),
        pytest.param(3, 0.01, "f4", id="steps of float32"),
        pytest.param(2, 0.2, "f4", id="blocks of float32", marks=EXTENDED),
        pytest.param(3, 0.01, float, id="steps", marks=EXTENDED),
    ],
)
def test_the_kernel_of_an_order_returns_the_bits_of_the_shared_one(order, frequency, dtype, monkeypatch):
    b, a = (part.astype(dtype) for part in signal.butter(order, frequency))
    x = draw((3, 501), dtype)
    short = lfilter(b, a, x[:2])
    compile_for_sizes(monkeypatch, 0)
    np.testing.assert_array_equal(lfilter(b, a, x)[:2], short)

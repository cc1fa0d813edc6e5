"""The numbers that linear_recurrence promises, on any values, cut in any way."""

from itertools import pairwise, product

import dask.array as da
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from internals import divide_scans
from oracles import differences, linear, linear_bound, loop
from places import from_gpu, on_gpu

import mgrec

FLOATS = ["float32", "float64"]
ONE, THREE, HALVES = ("one", None, "stream"), ("threads", 3, "stream"), ("dask", [0.5], "stream")


def cut(length, fractions):
    """Chunk sizes of an axis; equal fractions make chunks of no steps."""
    ends = [0, *sorted(int(f * length) for f in fractions), length]
    return tuple(b - a for a, b in pairwise(ends))


def solve(s, t, initial, axis, reverse, way):
    """Solve on one thread, on several, or over Dask chunks, on the host or on a GPU."""
    kind, detail, memory = way
    to_place, to_host = (on_gpu, from_gpu) if "cupy" in kind else (np.asarray, np.asarray)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MGREC_NUM_THREADS", str(detail) if kind == "threads" else "1")
        divide_scans(patch)
        if "dask" not in kind:
            s, t = (to_place(x) if np.ndim(x) else x for x in (s, t))
            return to_host(mgrec.linear_recurrence(s, t, initial, axis=axis, reverse=reverse))
        shape = np.broadcast_shapes(np.shape(s), np.shape(t))
        sizes = [(length,) for length in shape]
        sizes[axis] = cut(shape[axis], detail)

        def in_chunks(x):
            wanted = zip(x.shape, shape, sizes, strict=True)
            chunks = tuple(size if have == want else (1,) for have, want, size in wanted)
            return da.from_array(x, chunks=chunks).map_blocks(to_place)

        s, t = in_chunks(s) if np.ndim(s) else s, in_chunks(t)
        w = mgrec.linear_recurrence(s, t, initial, axis=axis, reverse=reverse, memory=memory)
        assert w.chunks == t.chunks
        return to_host(w.compute(scheduler="sync"))


def check(s, t, initial, axis=-1, reverse=False, way=ONE):
    judge(solve(s, t, initial, axis, reverse, way), s, t, initial, axis, reverse)


def judge(w, s, t, initial, axis=-1, reverse=False):
    """Assert the contract of the docstring of linear_recurrence."""
    dtype = np.result_type(s, t, initial)
    sequential = loop(linear, (s, t), initial, dtype, axis, reverse)
    assert w.dtype == dtype
    assert w.shape == sequential.shape
    wrong = differences(w, sequential)
    assert not wrong.size, f"at {wrong[0]}: {w[tuple(wrong[0])]}, {sequential[tuple(wrong[0])]}"
    exact, bound = linear_bound(s, t, initial, dtype, axis, reverse)
    with np.errstate(all="ignore"):
        # Beyond the bound's promise (inf) nothing but the places of nan and inf is asked.
        excess = np.isfinite(bound) & ~(np.abs(w - exact) <= bound)
    assert not excess.any(), f"error {np.abs(w - exact)[excess][0]} > bound {bound[excess][0]}"


# --- values that hypothesis draws ------------------------------------------------------------

KINDS = [
    "moderate",
    "contracting",
    "unit",
    "zeros",
    "ones",
    "near one",
    "doubling",
    "halving",
    "up and down",
    "any exponent",
    "huge",
    "tiny",
    "subnormal",
    "largest",
]
SPECIALS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, "largest", "smallest"]


def values(kind, count, generator, dtype):
    """Numbers of one kind, real."""
    info = np.finfo(dtype)
    signs = generator.choice([-1.0, 1.0], count)
    uniform = generator.random(count)
    most, least = info.maxexp, info.minexp
    with np.errstate(all="ignore"):
        numbers = {
            "moderate": lambda: 4 * uniform - 2,
            "contracting": lambda: signs * uniform,
            "unit": lambda: signs,
            "zeros": lambda: np.zeros(count),
            "ones": lambda: np.ones(count),
            "near one": lambda: signs * (1 + 1e-3 * (uniform - 0.5)),
            "doubling": lambda: np.full(count, 2.0),
            "halving": lambda: np.full(count, 0.5),
            "up and down": lambda: np.exp2(np.resize([1, -1], count) * (most - 4) // 2),
            "any exponent": lambda: signs * np.exp2(least + (most - 1 - least) * uniform),
            "huge": lambda: signs * uniform * np.exp2(most - 1.0),
            "tiny": lambda: signs * uniform * np.exp2(least + 4.0),
            "subnormal": lambda: signs * np.floor(8 * uniform) * float(info.smallest_subnormal),
            "largest": lambda: signs * float(info.max),
        }[kind]()
        return numbers.astype(info.dtype)


def special(value, dtype):
    info = np.finfo(dtype)
    return {"largest": info.max, "smallest": info.smallest_subnormal}.get(value, value)


kinds = st.sampled_from(KINDS)
lengths = st.one_of(st.integers(0, 12), st.integers(0, 150), st.integers(0, 300))
segments = st.lists(st.tuples(kinds, kinds, lengths, st.integers(0, 999)), max_size=3)
spots = st.lists(st.tuples(st.sampled_from("st"), st.floats(0, 0.999), st.sampled_from(SPECIALS)), max_size=3)
initials = st.one_of(st.just(0.0), st.just(1.0), st.tuples(kinds, st.integers(0, 999)))
ways = st.one_of(
    st.just(ONE),
    st.tuples(st.just("threads"), st.integers(2, 5), st.just("stream")),
    st.tuples(
        st.just("dask"),
        st.lists(st.floats(0, 1), max_size=5),
        st.sampled_from(["stream", "stream", "two-pass"]),
    ),
)
ways_on_gpu = st.one_of(
    st.just(("cupy", None, "stream")),
    st.tuples(st.just("dask of cupy"), st.lists(st.floats(0, 1), max_size=5), st.just("stream")),
)
# (rows before the axis, rows after it), and whether s is an array, one a row, or a scalar.
layouts = st.tuples(st.integers(1, 3), st.sampled_from([1, 1, 1, 2, 3]))
forms = st.sampled_from(["array", "array", "row", "scalar"])


def fill(draws, places, rows, dtype):
    """Operands s and t, (steps, rows), out of segments and single special values."""
    real = np.finfo(dtype).dtype

    def one(number, row, imaginary):
        parts = [np.empty(0, real)]
        for at, draw in enumerate(draws):
            generator = np.random.default_rng((draw[3], number, row, at, imaginary))
            parts.append(values(draw[number], draw[2], generator, dtype))
        return np.concatenate(parts)

    def all_rows(number, imaginary):
        return np.stack([one(number, row, imaginary) for row in range(rows)], -1)

    operands = [all_rows(number, 0).astype(dtype) for number in (0, 1)]
    if np.dtype(dtype).kind == "c":
        for number, operand in enumerate(operands):
            operand.imag = all_rows(number, 1)
    for name, fraction, value in places:
        operand = operands["st".index(name)]
        if operand.size:
            operand.flat[int(fraction * operand.size)] = special(value, dtype)
    return operands


def first_state(drawn, dtype):
    if isinstance(drawn, float):
        return np.dtype(dtype).type(drawn)
    kind, seed = drawn
    return values(kind, 1, np.random.default_rng(seed), dtype).astype(dtype)[0]


def arranged(s, t, layout, form):
    """s and t of (steps, rows) with the rows on both sides of the axis; s in its form."""
    before, after = layout
    steps = t.shape[0]
    shape = (steps, before, after)
    s, t = (np.moveaxis(x.reshape(shape), 0, 1) for x in (s, t))
    if form == "scalar":
        s = s.flat[0] if s.size else s.dtype.type(0.5)
    elif form == "row":
        s = s[:, :1] if steps else np.full((before, 1, after), s.dtype.type(0.5))
    return s, t


def is_promised(s, t, initial, dtype, reverse):
    """Return False if rounding errors alone decide where the sequential loop overflows.

    They do where its state underflows and what is left grows beyond the largest number; within
    a rounding error of that number; and where terms cancel whose sizes overflow. For complex
    numbers a factor of 4 from overflow is promised.
    """
    most = np.finfo(dtype).max
    with np.errstate(all="ignore"):
        sizes = np.abs(s), np.abs(t)
        size = loop(linear, sizes, np.abs(initial), np.longdouble, 1, reverse)
        if np.dtype(dtype).kind == "c":
            return not (np.isfinite(size) & (size > most / 8)).any()
        sequential = loop(linear, (s, t), initial, dtype, 1, reverse)
        exact, _ = linear_bound(s, t, initial, dtype, 1, reverse)
        differs = ((np.abs(exact) <= most) != np.isfinite(sequential)) & ~np.isnan(exact)
        near = np.abs(np.abs(exact) / most - 1) < 1e-3
        cancels = np.isfinite(sequential) & (size > most)
    return not (differs | near | cancels).any()


def check_drawn(dtype, draws, places, initial, layout, form, reverse, way):
    s, t = fill(draws, places, layout[0] * layout[1], dtype)
    s, t = arranged(s, t, layout, form)
    w = first_state(initial, dtype)
    assume(is_promised(s, t, w, dtype, reverse))
    check(s, t, w, 1, reverse, way)


drawn = segments, spots, initials, layouts, forms, st.booleans()
each_dtype = pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])


@pytest.mark.extended
@each_dtype
@given(*drawn, ways)
def test_contract(dtype, draws, places, initial, layout, form, reverse, way):
    check_drawn(dtype, draws, places, initial, layout, form, reverse, way)


@pytest.mark.gpu
@each_dtype
@given(*drawn, ways_on_gpu)
def test_contract_on_a_gpu(dtype, draws, places, initial, layout, form, reverse, way):
    check_drawn(dtype, draws, places, initial, layout, form, reverse, way)


def check_integers(dtype, steps, seed, layout, form, reverse, way):
    generator, info = np.random.default_rng(seed), np.iinfo(dtype)
    shape = (steps, layout[0] * layout[1])
    s, t = (generator.integers(info.min, info.max, shape, dtype, endpoint=True) for _ in range(2))
    s, t = arranged(s, t, layout, form)
    initial = np.dtype(dtype).type(generator.integers(0, 100))
    w = solve(s, t, initial, 1, reverse, way)
    assert w.dtype == dtype
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(w, loop(linear, (s, t), initial, dtype, 1, reverse))
    wide = loop(linear, (s.astype(object), t.astype(object)), int(initial), object, 1, reverse)
    np.testing.assert_array_equal(w.astype(object) % 2**info.bits, wide % 2**info.bits)


@pytest.mark.parametrize("way", [ONE, THREE, HALVES])
def test_integers_are_exact_modulo_their_size(way):
    check_integers("uint64", 150, 0, (2, 1), "array", False, way)


# Rows, columns and forms of s are kernels of their own: 70 s of compilation for one dtype.
@pytest.mark.extended
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@given(lengths, st.integers(0, 999), layouts, forms, st.booleans(), ways)
def test_any_integers_are_exact_modulo_their_size(dtype, steps, seed, layout, form, reverse, way):
    check_integers(dtype, steps, seed, layout, form, reverse, way)


# --- numbers that were, or could be, wrong ------------------------------------------------------


def powers(*runs):
    """2**exponent, `count` times each, for (exponent, count) runs, and a last 1."""
    return np.array([2.0**exponent for exponent, count in runs for _ in range(count)] + [1.0])


SCALED = {
    "product falls, then rises, under a huge entry": (powers((-50, 11), (50, 10)), 2.0**900),
    "product rises, then falls, under a tiny entry": (powers((50, 11), (-50, 10)), 2.0**-700),
    "product passes 2**1080 and returns": (powers((90, 12), (-90, 12)), 2.0**-900),
    "product passes 2**-1080 and returns": (powers((-90, 12), (90, 12)), 2.0**500),
    "a tiny coefficient after a large one": (powers((400, 1), (-600, 1), (0, 1)), 2.0**700),
    "a huge coefficient after a fall": (powers((400, 1), (-450, 1), (600, 1)), 2.0**300),
    "one huge coefficient": (powers((1023, 1), (-1023, 1)), 0.5),
    "one subnormal coefficient": (powers((-1074, 1), (1000, 1)), 1.0),
    "zero after a product that overflows": (np.r_[powers((100, 11)), 0.0, 1.0], 1.0),
}


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("columns", [1, 3])
def test_products_of_a_chunk_are_kept_in_scale(name, columns):
    s, carry_in = SCALED[name]
    s = np.repeat(s[None, :, None], columns, 2)
    check(s, np.zeros_like(s), carry_in, 1, way=("dask", [0.999], "stream"))


@pytest.mark.parametrize(
    "way",
    [
        ONE,
        HALVES,
        ("threads", 2, "stream"),
        ("threads", 5, "stream"),
        ("dask", [k / 200 for k in range(1, 200)], "stream"),
        ("dask", [0.15, 0.3], "stream"),
    ],
)
def test_an_unstable_fixed_point_is_kept_for_thousands_of_steps(way):
    # w = 2w - 1 from 1: the state never moves, while products grow by 2**500 in a chunk and
    # more. (In chunks of 54 to 500 steps 2**n - (2**n - 1) is lost to rounding, within the
    # bound: that the loop keeps 1 is luck.)
    t = np.full(5_000, -1.0)
    assert (solve(2.0, t, 1.0, -1, False, way) == 1).all()
    assert (solve(np.full(5_000, 2.0), t, 1.0, -1, False, way) == 1).all()


@pytest.mark.parametrize("way", [ONE, THREE])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("s", [1.1, 1.3, 3.3])
def test_one_machine_overflows_only_where_the_loop_does(s, reverse, way):
    # At an unstable fixed point rounding alone decides: the loop happens to stay.
    t = np.full(20_000, 1 - s)
    for coefficient in (s, np.full(t.size, s)):
        assert np.isfinite(solve(coefficient, t, 1.0, -1, reverse, way)).all()


@pytest.mark.parametrize("way", [ONE, THREE, HALVES])
@pytest.mark.parametrize(("initial", "reverse"), [(1.0, False), (0.0, True)])
def test_what_is_not_finite_stays_where_the_loop_has_it(way, initial, reverse):
    spots = list(product((0, 1), [0, 100, 149, 150, 299], [np.nan, np.inf, -np.inf]))
    operands = np.full((2, len(spots), 300), [[[0.5]], [[1.0]]])
    for row, (operand, place, value) in enumerate(spots):
        operands[operand, row, place] = value
    operands[0, :, 220] = 0
    # One call for each row, which threads and chunks cut; one loop over all rows.
    results = [solve(s, t, initial, -1, reverse, way) for s, t in zip(*operands, strict=True)]
    judge(np.stack(results), *operands, initial, -1, reverse)


def special_recurrences():
    """Yield s, t and initial."""
    # Zero stays zero through a product that overflows.
    yield np.full(400, 1e3), np.zeros(400), 0.0
    yield 1e3, np.zeros(400), 0.0
    # Zero coefficients forget huge values.
    s, t = np.full(300, 2.0), np.ones(300)
    t[100], s[101::40] = 1e300, 0
    yield from ((s, t, initial) for initial in (1.0, 1e300))
    # Products that underflow carry a huge state.
    for s in (np.float32(0.5), np.full(200, 0.5, np.float32)):
        yield s, np.zeros(200, np.float32), np.float32(1e30)
    # The largest numbers add up as in the loop.
    largest = np.finfo(float).max
    for sign in (1.0, -1.0):
        t = np.resize([1.0, -1.0, -1.0, 1.0], 300) * largest
        yield from ((sign, t, 0.0), (np.full(300, sign), t, 0.0), (sign, np.zeros(300), largest))
    # An overflow inside a chunk is not lost when its products decay again.
    for after, initial in product((0.5, 0.0), (largest, -largest, largest / 2)):
        yield np.r_[1.0, 2.0, np.full(198, after)], np.zeros(200), initial


@pytest.mark.parametrize("way", [ONE, THREE, HALVES, ("dask", [0.3, 0.9], "two-pass")])
def test_special_recurrences(way):
    for s, t, initial in special_recurrences():
        check(s, t, initial, way=way)


@pytest.mark.parametrize("columns", [1, 3])
def test_a_chunk_that_overflows_before_it_meets_nan_ends_in_nan(columns):
    s = np.repeat(np.array([1e300, -1e300, 1.0])[None, :, None], columns, 2)
    t = np.zeros_like(s)
    t[:, 1] = np.nan
    check(s, t, 1e10, 1, way=("dask", [0.7], "stream"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_few_rows_have_the_bits_of_many(dtype):
    """Carry-ins of up to 8 rows are computed by numbers of Python, others by arrays."""
    pairs, generator = list(product(KINDS, KINDS)), np.random.default_rng(0)
    s, t = (np.stack([values(pair[k], 60, generator, dtype) for pair in pairs]) for k in range(2))
    t[5::40, 30], t[7::40, 10] = np.inf, np.nan

    def solved(rows):
        lazy = (da.from_array(x, chunks=(rows, 12)) for x in (s, t))
        return mgrec.linear_recurrence(*lazy, np.float32(1e30)).compute(scheduler="sync")

    few, many = solved(4), solved(len(pairs))
    np.testing.assert_array_equal(few, many)
    numbers = ~np.isnan(many)
    np.testing.assert_array_equal(np.signbit(few[numbers]), np.signbit(many[numbers]))


def test_a_state_that_vanishes_does_not_return():
    s = np.array([1e-30, 1e-30, 1e30, 1e30, 1e30, 1e30, 1], np.float32)
    check(s, np.zeros(7, np.float32), np.float32(1), way=("dask", [0.9], "stream"))


# --- the oracles can fail -----------------------------------------------------------------------


def test_the_bound_refuses_an_error_twice_its_size_and_ends_where_the_sizes_overflow():
    s, t = np.full(50, 0.9), np.ones(50)
    exact, bound = linear_bound(s, t, 0.0, float)
    w = loop(linear, (s, t), 0.0, float)
    assert (np.abs(w - exact) <= bound).all()
    assert (np.abs(w + 2.1 * bound - exact) > bound).all()
    assert bound[-1] < 1e-12
    _, bound = linear_bound(2.0, np.zeros(5), 2.0**1021, float)
    assert np.isfinite(bound).tolist() == [True, True, False, False, False]


def test_differences_tell_nan_and_both_infinities_apart():
    kinds = [1.0, np.nan, np.inf, -np.inf]
    for a in kinds:
        for b in kinds:
            same = not differences(np.array([a]), np.array([b])).size
            assert same == (np.array_equal(a, b, equal_nan=True))
    assert differences(np.array([1j, np.nan]), np.array([np.inf, 1])).tolist() == [[0], [1]]


def test_the_loop_is_that_of_numpy_scalars():
    generator = np.random.default_rng(0)
    s, t = generator.normal(size=(2, 40)).astype(np.float32)
    w, states = np.float32(3), []
    for a, b in zip(s[::-1], t[::-1], strict=True):
        w = a * w + b
        states.append(w)
    assert loop(linear, (s, t), 3, np.float32, reverse=True).tolist() == states[::-1]

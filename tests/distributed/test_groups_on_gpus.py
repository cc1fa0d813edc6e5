"""Functions on a group of GPUs, whose ranks exchange summaries without a wait of the host."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from thread_group import DeviceThreadGroup, run_on_ranks, solve_on_ranks

import mgrec
import mgrec.adjoint
import mgrec.statespace
from mgrec.core.contract.kernels import CacheMiss
from mgrec.distributed.groups import calls
from mgrec.distributed.groups.calls import call_on_group
from mgrec.distributed.groups.ends import start_gradients
from mgrec.filters import recurrence as filters
from mgrec.scans import recurrence
from mgrec.scans.cuda import speculation
from mgrec.scans.matrix import recurrence as matrices
from mgrec.signal import lfilter

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy")

SIZE, STEPS = 3, 600_000


@pytest.fixture(autouse=True)
def small_parts_are_speculative(monkeypatch):
    for module in (recurrence, filters):
        monkeypatch.setattr(module, "LARGE_ON_GPU", 1 << 16)
    monkeypatch.setattr(speculation, "_PREFIX_FRACTION", 16)


@pytest.fixture
def solved(monkeypatch):
    """The outcomes of exchanges on the device: whether they sufficed."""
    outcomes, solve = [], calls.GroupCall.solve_on_device

    def watched(*arguments, **options):
        try:
            result = solve(*arguments, **options)
        except Exception as error:
            outcomes.append(error)
            raise
        outcomes.append("solved")
        return result

    monkeypatch.setattr(calls.GroupCall, "solve_on_device", watched)
    return outcomes


def as_dtype(name):
    return np.dtype(name if name != "bfloat16" else pytest.importorskip("ml_dtypes").bfloat16)


def on_ranks(function, *operands, bounds, axis=0, calls=2, **options):
    """Return the results of the last of several calls of all ranks, joined."""

    def call(rank, group):
        part = slice(*bounds[rank : rank + 2])
        parts = [cupy.asarray(x[part]) if np.ndim(x) else x for x in operands]
        for _ in range(calls):
            result = function(*parts, axis=axis, group=group, **options)
        return result

    return np.concatenate(solve_on_ranks(SIZE, call, DeviceThreadGroup))


def in_chunks(function, *operands, bounds, axis=0, **options):
    """Return the result of a graph with the same chunks."""
    import dask.array as da

    chunks = tuple(np.diff(bounds).tolist())

    def lazy(x):
        if not np.ndim(x):
            return x
        parts = [da.from_array(cupy.asarray(x[a:b]), chunks=-1) for a, b in pairwise(bounds)]
        return da.concatenate(parts)

    result = function(*map(lazy, operands), axis=axis, **options)
    assert result.chunks[0] == chunks
    return result.compute(scheduler="sync").get()


@pytest.mark.parametrize(
    ("kind", "dtype", "reverse"),
    [
        ("array", "float32", False),
        ("array", "float64", True),
        ("constant", "float32", True),
        ("constant", "float64", False),
        ("prefix sum", "float32", False),
        ("columns", "float32", False),
        ("columns", "float64", True),
        ("short", "float32", True),
        ("short", "float64", False),
    ],
)
def test_linear_recurrences(kind, dtype, reverse, solved):
    rng = np.random.default_rng(11)
    steps = 900 if kind == "short" else STEPS
    shape = (STEPS, 2) if kind == "columns" else (steps,)
    t = rng.standard_normal(shape).astype(dtype)
    s = {"constant": -0.5, "prefix sum": 1.0}.get(kind)
    if s is None:
        s = rng.uniform(*(0.05, 0.3) if kind == "columns" else (-0.5, 0.5), shape).astype(dtype)
    bounds = 0, steps // 3, steps // 2, steps
    options = {"bounds": bounds, "reverse": reverse, "initial": 3.0}
    result = on_ranks(mgrec.linear_recurrence, s, t, **options)
    assert solved == ["solved"] * 2 * SIZE
    if kind == "columns":  # A graph does not solve columns speculatively.
        expected = mgrec.linear_recurrence(s, t, axis=0, reverse=reverse, initial=3.0)
        np.testing.assert_allclose(result, expected, rtol=0, atol=8 * np.finfo(dtype).eps)
    else:
        graph = in_chunks(mgrec.linear_recurrence, s, t, **options)
        np.testing.assert_array_equal(result, graph)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("row", (6000,)),
        ("constant", (6000, 3)),
        ("channels", (6000, 3)),
        ("lines", (6000, 64)),
        ("columns", (900, 131)),
        ("speculative columns", (30_000, 40)),
    ],
)
def test_numbers_of_two_bytes(kind, shape, reverse, dtype, solved):
    """States are float32 between ranks, too: results are rounded once."""
    half_a_unit, dtype = 2.0 ** -(8 if dtype == "bfloat16" else 11), as_dtype(dtype)
    rng = np.random.default_rng(17)
    ends = (0.05, 0.1) if kind == "speculative columns" else (0.9, 1)
    s = 0.99 if kind == "constant" else rng.uniform(*ends, shape).astype(dtype)
    t = rng.standard_normal(shape).astype(dtype)
    bounds = 0, shape[0] // 3, shape[0] * 2 // 3, shape[0]
    options = {"reverse": reverse, "initial": 3.0}
    # Two calls find that columns of other kinds are not contractive.
    result = on_ranks(mgrec.linear_recurrence, s, t, bounds=bounds, calls=3, **options)
    assert result.dtype == dtype
    assert solved[-SIZE:] == ["solved"] * SIZE
    s, t = (np.asarray(x, np.float32) for x in (s, t))
    exact = mgrec.linear_recurrence(s, t, axis=0, **options)
    error = np.abs(result.astype(np.float32) - exact)
    assert (error <= half_a_unit * np.abs(exact) + 2e-5).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_last_state_of_columns_is_not_rounded(dtype, solved):
    """The results of a part begin with a large multiple of the state after the part before."""
    dtype = as_dtype(dtype)
    shape = 20_000, 40
    rng = np.random.default_rng(18)
    s = rng.uniform(0.05, 0.1, shape).astype(dtype)
    t = rng.standard_normal(shape).astype(dtype)
    half = shape[0] // 2
    t[half] = 0
    s[half] = 1
    before = mgrec.linear_recurrence(*(x[:half].astype("f4") for x in (s, t)), axis=0)[-1]
    t[half] = (-before).astype(dtype)
    bounds = 0, half, shape[0]

    def call(rank, group):
        parts = [cupy.asarray(x[slice(*bounds[rank : rank + 2])]) for x in (s, t)]
        return mgrec.linear_recurrence(*parts, axis=0, group=group).get()

    found = run_on_ranks(2, call, DeviceThreadGroup)[1][0].astype(np.float32)
    assert solved == ["solved"] * 2
    exact = before + t[half].astype(np.float32)
    assert np.abs(exact).max() > 1e-5
    np.testing.assert_allclose(found, exact, rtol=0.01, atol=1e-7)
    t[half // 2, 3] = np.nan  # Long before the last steps.
    assert np.isnan(run_on_ranks(2, call, DeviceThreadGroup)[1].astype(np.float32)[:, 3]).all()
    assert [type(outcome) for outcome in solved[2:]] == [CacheMiss] * 2


@pytest.mark.parametrize("shape", [(STEPS,), (STEPS // 2, 2)])
@pytest.mark.parametrize("has_states", [False, True])
def test_filters(shape, has_states, solved):
    rng = np.random.default_rng(12)
    x = rng.standard_normal(shape).astype(np.float32)
    b, a = [0.1, 0.2, 0.1], [1.0, -0.9, 0.3]
    states = {"zi": cupy.asarray(rng.standard_normal((2, *shape[1:])))} if has_states else {}
    bounds = 0, len(x) // 3, len(x) // 2, len(x)

    def call(rank, group):
        part = cupy.asarray(x[slice(*bounds[rank : rank + 2])])
        return [lfilter(b, a, part, axis=0, group=group, **states) for _ in range(2)][1]

    results = run_on_ranks(SIZE, call, DeviceThreadGroup)
    assert solved == ["solved"] * 2 * SIZE
    expected = lfilter(b, a, cupy.asarray(x), axis=0, **states)
    if has_states:
        for _, last in results:
            np.testing.assert_allclose(last.get(), expected[1].get(), rtol=1e-6)
        results, expected = [y for y, _ in results], expected[0]
    y = np.concatenate([part.get() for part in results])
    np.testing.assert_allclose(y, expected.get(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", ["inf", "nan", "near overflow", "long memory"])
def test_messages_that_do_not_suffice(case, solved):
    """The general way solves what a guess does not: the results are those of one device."""
    rng = np.random.default_rng(13)
    t = rng.standard_normal(STEPS).astype(np.float32)
    s = rng.uniform(-0.5, 0.5, STEPS).astype(np.float32)
    bounds = 0, STEPS // 3, STEPS // 2, STEPS
    if case == "long memory":
        s = np.full(STEPS, 0.99999, np.float32)
    else:
        t[STEPS // 3 - 5] = {"inf": np.inf, "nan": np.nan, "near overflow": 3e38}[case]
        s[STEPS // 3 - 5 : STEPS // 3 + 5] = 1.0
    result = on_ranks(mgrec.linear_recurrence, s, t, bounds=bounds, calls=1)
    assert [type(outcome) for outcome in solved] == [CacheMiss] * SIZE
    expected = mgrec.linear_recurrence(cupy.asarray(s), cupy.asarray(t)).get()
    largest = np.nanmax(np.abs(expected, where=np.isfinite(expected), out=np.zeros_like(expected)))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * largest)


def test_errors_and_options_that_differ(solved):
    """A rank with a guess meets others that have an error or other options."""
    t = cupy.ones(100, np.float32)

    def different(rank, group):
        axis_of = {"reverse": rank == 1}
        mgrec.linear_recurrence(0.5, t, group=group, **axis_of)

    def wrong(rank, group):
        mgrec.linear_recurrence(0.5, t if rank < 2 else t[None, None].sum(), group=group)

    def again(rank, group):
        for call in (different, wrong):
            with pytest.raises((ValueError, TypeError)):
                call(rank, group)
        return mgrec.linear_recurrence(0.5, t, group=group)

    results = run_on_ranks(SIZE, again, DeviceThreadGroup)
    joined = np.concatenate([result.get() for result in results])
    np.testing.assert_allclose(joined, mgrec.linear_recurrence(0.5, np.ones(300, np.float32)))


@pytest.mark.parametrize(
    ("dtype", "columns", "is_solved"),
    [
        ("float32", (), True),
        ("float64", (), True),
        ("float32", (3,), True),
        ("float64", (3,), True),
        ("complex64", (), False),
    ],
)
def test_dominant_systems(dtype, columns, is_solved, solved):
    rng = np.random.default_rng(14)
    n = 40_000
    system = [rng.uniform(-1, 1, (n, *columns)).astype(dtype) for _ in range(4)]
    system[1] += np.asarray(4, dtype)
    bounds = 0, n // 3, n // 2, n
    result = on_ranks(mgrec.solve_tridiagonal, *system, bounds=bounds)
    assert solved == ["solved"] * 2 * SIZE * is_solved
    graph = in_chunks(mgrec.solve_tridiagonal, *system, bounds=bounds)
    np.testing.assert_array_equal(result, graph)


@pytest.mark.parametrize("case", ["float32", "float64", "matrices of numbers", "pivot", "nan"])
def test_dominant_systems_in_many_columns(case, solved):
    """Messages are longer than the first ones of ranks: the host waits until all have agreed."""
    rng, columns = np.random.default_rng(24), 300
    dtype, n, bounds = "f4" if case == "float32" else "f8", 1100, (0, 300, 556, 1100)
    dl, d, du, b = (rng.uniform(-1, 1, (n, columns)).astype(dtype) for _ in range(4))
    d += 6
    if case == "matrices of numbers":
        dl, d, du = 0.5, 2.0, -0.25
    if case == "pivot":
        d[10, 7] = 0
    if case == "nan":
        b[20] = np.nan
        with pytest.raises(ValueError, match="b must hold no nan"):
            on_ranks(mgrec.solve_tridiagonal, dl, d, du, b, bounds=bounds)
        return
    result = on_ranks(mgrec.solve_tridiagonal, dl, d, du, b, bounds=bounds)
    assert [outcome == "solved" for outcome in solved] == [case != "pivot"] * 2 * SIZE
    graph = in_chunks(mgrec.solve_tridiagonal, dl, d, du, b, bounds=bounds)
    np.testing.assert_array_equal(result, graph)
    expected = mgrec.solve_tridiagonal(dl, d, du, b, axis=0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=30 * np.finfo(dtype).eps * abs(expected).max())


def test_ranks_whose_long_messages_differ(solved):
    """One has other columns, and one fails before its message."""
    b = cupy.ones((300, 300))

    def different(rank, group):
        mgrec.solve_tridiagonal(0.5, 2.0, 0.5, b[:, : 300 - rank].copy(), axis=0, group=group)

    def wrong(rank, group):
        mgrec.solve_tridiagonal(0.5, 2.0, 0.5 if rank else "du", b, axis=0, group=group)

    def again(rank, group):
        for call in (different, wrong):
            with pytest.raises((ValueError, TypeError)):
                call(rank, group)
        return mgrec.solve_tridiagonal(0.5, 2.0, 0.5, b, axis=0, group=group).get()

    joined = np.concatenate(run_on_ranks(SIZE, again, DeviceThreadGroup))
    np.testing.assert_allclose(joined, mgrec.solve_tridiagonal(0.5, 2.0, 0.5, np.ones((900, 300)), axis=0))


@pytest.mark.parametrize("case", ["slow decay", "pivot", "nan at an end"])
def test_systems_of_other_kinds(case, solved):
    rng = np.random.default_rng(15)
    n = 40_000
    dl, d, du, b = rng.uniform(-1, 1, (4, n))
    d += 4
    if case == "slow decay":
        dl, d, du = -np.ones(n), np.full(n, 2.0001), -np.ones(n)
    elif case == "pivot":
        d[n // 4] = 0
    else:
        b[n // 3] = np.nan
    bounds = 0, n // 3, n // 2, n
    if case == "nan at an end":
        with pytest.raises(ValueError, match="b must hold no nan"):
            on_ranks(mgrec.solve_tridiagonal, dl, d, du, b, bounds=bounds, calls=1)
        return
    result = on_ranks(mgrec.solve_tridiagonal, dl, d, du, b, bounds=bounds, calls=1)
    is_decoupled = case == "pivot"
    assert all((outcome == "solved") == is_decoupled for outcome in solved)
    np.testing.assert_allclose(result, mgrec.solve_tridiagonal(dl, d, du, b), rtol=1e-8)


def gradients(grad, w, s, t, initial=None, **options):
    """Of the part of a rank, as the backward pass of torch computes them."""
    for has_common in (False, True):
        start_gradients(grad.shape[options["axis"]], None, has_common)
        try:
            return mgrec.adjoint.linear_recurrence.compose(grad, w, s, t, initial, **options)
        except CacheMiss:
            assert not has_common


@pytest.fixture
def sent(monkeypatch):
    """The ranks that have sent messages of the host."""
    ranks, all_gather_bytes = [], DeviceThreadGroup.all_gather_bytes

    def counted(group, message):
        ranks.append(group.rank)
        return all_gather_bytes(group, message)

    monkeypatch.setattr(DeviceThreadGroup, "all_gather_bytes", counted)
    return ranks


@pytest.mark.parametrize(
    ("shape", "reverse", "dtype"),
    [
        ((STEPS,), False, "float32"),
        ((STEPS, 2), False, "float32"),
        ((90, 3), False, "float64"),
        ((90,), True, "float32"),
        ((30_000, 40), True, "bfloat16"),
        ((90, 40), False, "float16"),
    ],
)
def test_gradients(shape, reverse, dtype, solved, sent):
    """Repeated calls send one message on the device, and none of the host."""
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(dtype, 2e-6)
    dtype = as_dtype(dtype)
    rng = np.random.default_rng(16)
    s = rng.uniform(0.05, 0.1 if shape[1:] == (40,) else 0.3, shape).astype(dtype)
    t, grad = rng.standard_normal((2, *shape)).astype(dtype)
    initial = rng.standard_normal(shape[1:]).astype(dtype)
    options = {"axis": 0, "reverse": reverse}
    arrays = [np.asarray(x, "f8") for x in (s, t, initial)]
    exact = mgrec.linear_recurrence(*arrays, **options)
    w = exact.astype(dtype)
    expected = mgrec.adjoint.linear_recurrence(np.asarray(grad, "f8"), exact, *arrays, **options)
    bounds = 0, shape[0] // 3, shape[0] // 2, shape[0]

    def call(rank, group):
        parts = [cupy.asarray(x[slice(*bounds[rank : rank + 2])]) for x in (grad, w, s, t)]
        of_first = cupy.asarray(initial)
        for number in range(3):
            if number == 2:
                group.barrier.wait()
                sent.clear()
                group.barrier.wait()
            found = call_on_group(group, gradients, *parts, of_first, **options)
        return found

    results = solve_on_ranks(SIZE, call, DeviceThreadGroup)
    assert solved == ["solved"] * 3 * SIZE
    assert not sent
    *columns, of_initial = zip(*results, strict=True)
    found = [np.concatenate(parts) for parts in columns]
    found.append(sum(np.asarray(part).astype("f8") for part in of_initial))
    for values, wanted in zip(found, expected, strict=True):
        scale = np.abs(wanted) + 1
        assert (np.abs(values.astype("f8") - wanted) <= 4 * rounding * scale).all()


def test_gradients_whose_first_message_is_of_the_host(monkeypatch):
    """A few calls find that no message on the device confirms lengths: then these are sent."""
    rng = np.random.default_rng(20)
    s, t, grad = rng.uniform(0.05, 0.3, (3, 2, 90))
    w = mgrec.linear_recurrence(s, t)
    expected = mgrec.adjoint.linear_recurrence(grad, w, s, t)
    compose, attempts = mgrec.adjoint.linear_recurrence.compose, []

    def counted(*operands, **options):
        attempts.append(1)
        return compose(*operands, **options)

    monkeypatch.setattr(mgrec.adjoint.linear_recurrence, "compose", counted)

    def call(rank, group):
        parts = [cupy.asarray(x[:, 30 * rank : 30 * rank + 30]) for x in (grad, w, s, t)]
        for _ in range(8):
            found = call_on_group(group, gradients, *parts, axis=1)[:2]
        return [x.get() for x in found]

    results = run_on_ranks(SIZE, call, DeviceThreadGroup)
    for parts, wanted in zip(zip(*results, strict=True), expected[:2], strict=True):
        np.testing.assert_allclose(np.concatenate(parts, 1), wanted, rtol=1e-9)
    assert len(attempts) == (8 + calls.PATIENCE) * SIZE


def test_gradients_of_parts_that_change(solved):
    """Lengths of earlier calls are not used for parts of other lengths, which one rank keeps."""
    rng = np.random.default_rng(19)
    s, t, grad = rng.uniform(0.05, 0.3, (3, 90))
    w = mgrec.linear_recurrence(s, t)
    expected = mgrec.adjoint.linear_recurrence(grad, w, s, t)

    def call(rank, group):
        answers = []
        for bounds in ((0, 30, 60, 90), (0, 30, 30, 90), (0, 30, 89, 90), (0, 30, 60, 90)):
            parts = [cupy.asarray(x[slice(*bounds[rank : rank + 2])]) for x in (grad, w, s, t)]
            for _ in range(2):
                found = call_on_group(group, gradients, *parts, axis=0)[:2]
            answers.append(found)
        return answers

    results = solve_on_ranks(SIZE, call, DeviceThreadGroup)
    for of_ranks in zip(*results, strict=True):
        for parts, wanted in zip(zip(*of_ranks, strict=True), expected[:2], strict=True):
            np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=1e-9)
    assert "solved" in solved


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [2, 5])
def test_matrices_go_from_part_to_part(n, reverse):
    """Each rank gets the states after the parts before its own, and not those of its part alone."""
    rng = np.random.default_rng(14)
    operands = rng.uniform(-0.4, 0.4, (90, n, n)), rng.normal(size=(90, n))
    options = {"initial": rng.normal(size=n), "reverse": reverse}
    scan = partial(mgrec.scan, mgrec.maps.matrix(n))
    states = on_ranks(scan, *operands, bounds=(0, 40, 41, 90), **options)
    np.testing.assert_allclose(states, scan(*operands, **options), rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "reverse"), [(2, False), (2, True), pytest.param(4, False, marks=pytest.mark.extended)]
)
def test_shards_of_matrices_are_speculative(n, reverse, solved, monkeypatch):
    """States and bits are those of a graph whose chunks are speculative too."""
    monkeypatch.setattr(matrices, "_LARGE_ON_GPU", 1 << 16)
    rng = np.random.default_rng(16)
    operands = rng.uniform(-0.4, 0.4, (STEPS, n, n)), rng.normal(size=(STEPS, n))
    bounds = 0, STEPS // 3, STEPS // 2, STEPS
    scan = partial(mgrec.scan, mgrec.maps.matrix(n), initial=[3.0] * n, reverse=reverse)
    states = on_ranks(scan, *operands, bounds=bounds)
    assert solved == ["solved"] * 2 * SIZE
    np.testing.assert_array_equal(states, in_chunks(scan, *operands, bounds=bounds))
    np.testing.assert_allclose(states, scan(*operands, axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", ["inf", "large", "large initial", "long memory", "few steps"])
def test_shards_of_matrices_that_depend_on_states_before(case, solved):
    rng = np.random.default_rng(17)
    steps = 3000 if case == "few steps" else STEPS
    M, b = rng.uniform(-0.4, 0.4, (steps, 2, 2)), rng.normal(size=(steps, 2))
    initial = [1e200, 0.0] if case == "large initial" else [3.0, 1.0]
    if case == "inf":
        M, b[steps // 3 - 1] = abs(M), np.inf
    elif case == "large":
        b[steps // 3 - 1] = 1e200
    elif case == "long memory":
        M = np.broadcast_to([[0.9, 0.1], [0.0, 0.999]], M.shape).copy()
    scan, bounds = (
        partial(mgrec.scan, mgrec.maps.matrix(2), initial=initial),
        (0, steps // 3, steps // 2, steps),
    )
    states = on_ranks(scan, M, b, bounds=bounds, calls=1)
    assert [type(outcome) for outcome in solved] == [CacheMiss] * SIZE * (case != "few steps")
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(states, scan(M, b, axis=0), rtol=1e-8, atol=1e-10)


def test_varying_filters_go_from_part_to_part():
    rng = np.random.default_rng(15)
    b, a, x = rng.normal(size=(90, 3)), rng.uniform(-0.3, 0.3, (90, 3)), rng.normal(size=90)
    a[:, 0] = 1.0
    y = on_ranks(lfilter, b, a, x, bounds=(0, 40, 41, 90))
    np.testing.assert_allclose(y, lfilter(b, a, x), rtol=1e-11, atol=1e-13)


def test_sums_over_steps_are_those_of_gpus(monkeypatch):
    from mgrec.distributed.groups import device

    sums, sum_on_device = [], device.sum_on_device

    def watched(*arguments):
        sums.append(sum_on_device(*arguments))
        return sums[-1]

    monkeypatch.setattr(device, "sum_on_device", watched)
    rng = np.random.default_rng(6)
    endog, one = rng.normal(size=(2, 900, 1)), np.eye(1)
    model = one, one, 0.9 * one, 0.5 * one
    options = {"initial_state": np.zeros(1), "initial_state_cov": one}
    expected = mgrec.statespace.kalman_filter(endog, *model, **options).llf

    def call(rank, group):
        part = cupy.asarray(endog[:, 300 * rank : 300 * (rank + 1)])
        result = mgrec.statespace.kalman_filter(
            part,
            *map(cupy.asarray, model),
            group=group,
            **{name: cupy.asarray(x) for name, x in options.items()},
        )
        return result.llf.get()

    for llf in run_on_ranks(SIZE, call, DeviceThreadGroup):
        np.testing.assert_allclose(llf, expected, rtol=1e-12)
    assert len(sums) == SIZE

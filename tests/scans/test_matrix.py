"""Maps of n states over four pairs of operators."""

import logging
from functools import partial, reduce

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from internals import begin_matrices, divide_rows
from places import as_numpy, each_memory, from_gpu, in_chunks, on_gpu, to_host
from thread_group import run_on_ranks

import mgrec
from mgrec.scans.matrix.arguments import MatrixScan, diagonal_problem
from mgrec.scans.matrix.recurrence import scalar_map
from mgrec.solve import solve

ALGEBRAS = [("+", "*"), ("max", "+"), ("min", "+"), ("logsumexp", "+")]


STRUCTURES = ["general", "diagonal", "block-diagonal", "companion"]


def map_of(n, algebra=("+", "*"), structure="general"):
    block = {4: 2, 16: 4}.get(n, n) if structure == "block-diagonal" else None
    return mgrec.maps.matrix(n, algebra, structure, block)


def dense(matrix_map, matrix):
    """The matrix of a step with all entries, from those of its structure."""
    n, structure = matrix_map.n, matrix_map.structure
    if structure == "general":
        return matrix
    full = np.full((n, n), matrix_map.zero)
    if structure == "companion":
        full[range(n - 1), range(1, n)] = matrix_map.one
        full[:, 0] = matrix
        return full
    size = matrix_map.block or 1
    for k, block in enumerate(matrix):
        full[k * size : (k + 1) * size, k * size : (k + 1) * size] = block
    return full


def plain_loop(matrix_map, matrices, vectors, initial, reverse=False, reset=None):
    """The states after each step of one sequence (steps, n), in long double."""
    steps = len(vectors)
    state, states = np.asarray(initial, np.longdouble), [None] * steps
    for step in range(steps - 1, -1, -1) if reverse else range(steps):
        if reset is not None and reset[step]:
            state = np.asarray(initial, np.longdouble)
        matrix, vector = dense(matrix_map, matrices[step]), vectors[step]
        if matrix_map.algebra == ("+", "*"):
            state = matrix @ state + vector
        else:
            paths = np.concatenate([matrix + state, vector[:, None]], axis=1)
            fold = {"max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}
            state = fold[matrix_map.algebra[0]].reduce(paths, axis=1)
        states[step] = state
    return np.array(states, np.float64)


def drawn(matrix_map, steps, rows=(), seed=0, dtype=float):
    generator = np.random.default_rng(seed)
    scale = 0.8 / matrix_map.n if matrix_map.algebra == ("+", "*") else 3.0
    scale *= 0.1 if matrix_map.structure == "companion" else 1.0
    matrices = generator.uniform(-scale, scale, (*rows, steps, *matrix_map.matrix_shape))
    vectors = generator.normal(size=(*rows, steps, matrix_map.n))
    initial = generator.normal(size=(*rows, matrix_map.n))
    return matrices.astype(dtype), vectors.astype(dtype), initial.astype(dtype)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("algebra", ALGEBRAS, ids=str)
@pytest.mark.parametrize("place", [as_numpy, in_chunks])
@pytest.mark.parametrize("reverse", with_extended([False, True], False))
def test_states_are_those_of_the_loop(algebra, structure, place, reverse):
    for n in (1, 3, 16):
        matrix_map = map_of(n, algebra, structure)
        matrices, vectors, initial = drawn(matrix_map, 40)
        reset = np.arange(40) % 17 == 5
        for marks in (None, reset):
            states = mgrec.scan(
                matrix_map, place(matrices), place(vectors), initial=initial, reverse=reverse, reset=marks
            )
            assert isinstance(states, da.Array) == (place is in_chunks)
            wanted = plain_loop(matrix_map, matrices, vectors, initial, reverse, marks)
            np.testing.assert_allclose(states, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("algebra", ALGEBRAS[:3], ids=str)
@pytest.mark.parametrize("n", [2, 4])
def test_maps_of_scalars_have_the_states_of_the_loop(algebra, n):
    matrix_map = mgrec.maps.matrix(n, algebra)
    matrices, vectors, initial = drawn(matrix_map, 12)
    scalars = scalar_map(matrix_map)
    state, composed = tuple(initial), scalars.identity
    states = []
    for step in range(12):
        step_map = scalars.lift(*matrices[step].ravel(), *vectors[step])
        state = scalars.apply(step_map, state)
        composed = scalars.compose(composed, step_map)
        states.append(state)
    wanted = plain_loop(matrix_map, matrices, vectors, initial)
    np.testing.assert_allclose(states, wanted, rtol=1e-13)
    np.testing.assert_allclose(scalars.apply(composed, tuple(initial)), wanted[-1], rtol=1e-12)


def test_diagonals_as_rows_have_the_states_of_the_loop():
    matrix_map = mgrec.maps.matrix(2, structure="diagonal")
    matrices, vectors, initial = drawn(matrix_map, 12)
    marks = (np.arange(12) % 5 == 3).astype(np.uint8)
    for reverse in (False, True):
        scan = MatrixScan(matrix_map, matrices, vectors, initial, (12,), 0, reverse, marks)
        states = solve(diagonal_problem(scan))
        wanted = plain_loop(matrix_map, matrices, vectors, initial, reverse, marks)
        np.testing.assert_allclose(states, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.gpu
@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("algebra", ALGEBRAS, ids=str)
@pytest.mark.parametrize(
    ("n", "structure"),
    [(2, "general"), (5, "general"), (5, "diagonal"), (4, "block-diagonal"), (3, "companion")],
)
def test_cupy_arrays(algebra, n, structure):
    matrix_map = map_of(n, algebra, structure)
    operands = drawn(matrix_map, 33, rows=(2,))
    reset = np.arange(33) % 11 == 3
    for options in ({}, {"reverse": True}, {"reset": reset}):
        matrices, vectors, initial = map(on_gpu, operands)
        on_host = mgrec.scan(matrix_map, *operands[:2], initial=operands[2], **options)
        if "reset" in options:
            options = {"reset": on_gpu(reset)}
        states = mgrec.scan(matrix_map, matrices, vectors, initial=initial, **options)
        np.testing.assert_allclose(from_gpu(states), on_host, rtol=1e-12, atol=1e-12)
        out = on_gpu(np.empty_like(on_host))
        result = mgrec.scan(matrix_map, matrices, vectors, initial=initial, out=out, **options)
        assert result is out
        np.testing.assert_array_equal(from_gpu(out), from_gpu(states))


@pytest.mark.gpu
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("algebra", ALGEBRAS, ids=str)
@pytest.mark.parametrize(("n", "steps"), [(2, 10_011), (4, 150_001)])
def test_long_rows_of_cupy_arrays(n, steps, algebra, reverse):
    """More tiles of four states than a GPU has multiprocessors, twice in the same memory."""
    matrix_map = map_of(n, algebra, "general")
    operands = drawn(matrix_map, steps, rows=(2,))
    options = {"axis": 1, "reverse": reverse}
    wanted = mgrec.scan(matrix_map, *operands[:2], initial=operands[2], **options)
    matrices, vectors, initial = map(on_gpu, operands)
    states = mgrec.scan(matrix_map, matrices, vectors, initial=initial, **options)
    np.testing.assert_allclose(from_gpu(states), wanted, rtol=1e-10, atol=1e-12)
    repeated = mgrec.scan(matrix_map, matrices, vectors, initial=initial, **options)
    np.testing.assert_array_equal(from_gpu(repeated), from_gpu(states))


@pytest.mark.gpu
def test_constant_matrices_of_long_rows_of_cupy_arrays():
    """A kernel of long rows read the matrix of each step, of which there is one."""
    matrices, vectors, initial = drawn(map_of(4), 2100)
    wanted = mgrec.scan(map_of(4), matrices[0], vectors, initial=initial)
    operands = map(on_gpu, (matrices[0], vectors))
    states = mgrec.scan(map_of(4), *operands, initial=on_gpu(initial))
    np.testing.assert_allclose(from_gpu(states), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "move",
    [partial(in_chunks, size=20), partial(in_chunks, size=500), pytest.param(on_gpu, marks=pytest.mark.gpu)],
)
def test_companion_matrices_whose_products_grow_lose_no_more_digits_than_the_loop(move):
    """Powers of four poles at 0.98 grow by 2e4: errors were 750 times those of the loop, 1e9 on a GPU."""
    companion = map_of(4, structure="companion")
    matrices = np.repeat(-np.poly(np.full(4, 0.98))[None, 1:], 3000, axis=0)
    vectors = np.random.default_rng(2).normal(size=(3000, 1)) * [1, 0, 0, 0]
    wanted = plain_loop(companion, matrices, vectors, np.zeros(4))
    of_loop = mgrec.scan(companion, matrices, vectors, initial=np.zeros(4))
    states = mgrec.scan(companion, move(matrices), move(vectors), initial=np.zeros(4))
    assert abs(to_host(states) - wanted).max() <= 4 * abs(of_loop - wanted).max()


@pytest.mark.gpu
@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"reset": np.arange(40) % 17 == 5}])
@pytest.mark.parametrize(
    ("n", "structure", "algebra"),
    [
        (2, "general", ("+", "*")),
        (4, "general", ("+", "*")),
        pytest.param(7, "general", ("+", "*"), marks=pytest.mark.emulated),
        (6, "diagonal", ("+", "*")),
        (5, "general", ("logsumexp", "+")),
        (6, "general", ("max", "+")),
    ],
)
def test_dask_arrays_of_cupy_arrays(n, structure, algebra, options):
    matrix_map = mgrec.maps.matrix(n, algebra, structure)
    matrices, vectors, initial = drawn(matrix_map, 40)
    wanted = mgrec.scan(matrix_map, matrices, vectors, initial=initial, **options)
    lazy = (in_chunks(array).map_blocks(on_gpu) for array in (matrices, vectors))
    states = mgrec.scan(matrix_map, *lazy, initial=on_gpu(initial), **options)
    np.testing.assert_allclose(from_gpu(states.compute()), wanted, rtol=1e-12, atol=1e-12)


def test_rows_axes_and_broadcasting():
    matrix_map = mgrec.maps.matrix(2)
    matrices, vectors, initial = drawn(matrix_map, 12, rows=(3,))
    states = mgrec.scan(matrix_map, matrices, vectors, initial=initial)
    for row in range(3):
        wanted = mgrec.scan(matrix_map, matrices[row], vectors[row], initial=initial[row])
        np.testing.assert_array_equal(states[row], wanted)
    across = [array.swapaxes(0, 1) for array in (matrices, vectors)]
    turned = mgrec.scan(matrix_map, *across, initial=initial, axis=0)
    np.testing.assert_array_equal(turned.swapaxes(0, 1), states)
    lazy = mgrec.scan(
        matrix_map, da.from_array(across[0], chunks=(5, 2, 1, 2)), across[1], initial=initial, axis=0
    )
    np.testing.assert_allclose(lazy.compute(), turned, rtol=1e-13, atol=1e-14)
    chunks = in_chunks(vectors[0]).rechunk({1: 1})
    constant = mgrec.scan(matrix_map, matrices[0, 0], chunks, initial=initial[0])
    full = np.broadcast_to(matrices[0, 0], (12, 2, 2))
    wanted = mgrec.scan(matrix_map, full, vectors[0], initial=initial[0])
    np.testing.assert_allclose(constant, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.usefixtures("short_segments")
@each_memory
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_products_neither_vanish_nor_overflow(factor, n, move):
    """The product of 7 matrices is 1e±420, and the states that it leads to are finite."""
    matrix_map, initial = mgrec.maps.matrix(n), np.full(n, 1e302 if factor < 1 else 1e-302)
    factors = np.where(np.arange(60) // 7 % 2, 1 / factor, factor)
    matrices, vectors = np.full((60, n, n), 1 / n) * factors[:, None, None], np.zeros((60, n))
    wanted = mgrec.scan(matrix_map, matrices, vectors, initial=initial)
    assert np.isfinite(wanted).all() and wanted.all()
    for size in (7, 20, 60):
        lazy = in_chunks(matrices, size=size).map_blocks(move)
        states = mgrec.scan(matrix_map, lazy, move(vectors), initial=initial)
        np.testing.assert_allclose(to_host(states), wanted, rtol=1e-13)


def growing(case, rows, steps, reverse):
    """Operands (rows, steps, ...) whose products grow in the order of time, and initial states."""
    generator = np.random.default_rng(0)
    matrices = generator.uniform(0.5, 2.0, (rows, steps, 2, 2))
    vectors, initial = np.zeros((rows, steps, 2)), np.zeros((rows, 2))
    if case == "resets":
        matrices[:, 500::500] = 0.0
        vectors[:, ::500] = generator.normal(size=(rows, 1, 2))
    elif case == "decaying direction":
        matrices[...] = [[2.0, 0.0], [0.25, 0.5]]
        initial[:, 1] = 1.0
    elif case == "fixed point":
        matrices[...], vectors[...], initial[...] = 2 * np.eye(2), -1.0, 1.0
    elif case == "vanish and return":
        powers = np.where(np.arange(steps) // 9 % 2, 2.0**150, 2.0**-150)
        matrices = 0.38 * matrices * powers[:, None, None]
        initial[...] = 2.0**850
    elif case == "inf":
        initial[...] = 1.0
        matrices[:, ::3, 1, 1] = -4.0
    elif case == "inf and back":
        factors = np.where(np.arange(steps) % 3000 < 1500, 2.0, 0.5)
        matrices[...] = factors[:, None, None] * np.eye(2)
        initial[...] = generator.normal(size=(rows, 2))
    elif case == "infinite entries":
        matrices = 0.4 * generator.uniform(-1, 1, matrices.shape)
        matrices[:, steps // 3, 0, 1] = np.inf
        vectors[...] = generator.normal(size=vectors.shape)
    else:
        assert case == "zeros"
        vectors[:, -50:] = generator.normal(size=vectors[:, -50:].shape)
    if reverse:
        matrices, vectors = (np.ascontiguousarray(x[:, ::-1]) for x in (matrices, vectors))
    return matrices, vectors, initial


def loop_of_rows(matrices, vectors, initial, reverse=False):
    """The states in float64, from sums in the order of the kernels."""
    steps, states = matrices.shape[1], np.empty(vectors.shape)
    x, y = initial.T
    with np.errstate(all="ignore"):
        for k in range(steps)[:: -1 if reverse else 1]:
            M, b = matrices[:, k], vectors[:, k]
            x, y = (M[:, i, 0] * x + M[:, i, 1] * y + b[:, i] for i in range(2))
            states[:, k] = np.stack([x, y], -1)
    return states


GROWING = (
    "zeros",
    "resets",
    "decaying direction",
    "fixed point",
    "vanish and return",
    "inf",
    "inf and back",
    "infinite entries",
)


@pytest.mark.parametrize("case", GROWING)
@pytest.mark.parametrize(("rows", "steps"), [(1, 9001), (3, 5000), (40, 2300), (300, 7)])
@pytest.mark.parametrize("reverse", with_extended([False, True], False))
@each_memory
def test_states_of_growing_matrices_are_those_of_the_loop(case, rows, steps, reverse, move):
    operands = growing(case, rows, steps, reverse)
    wanted = loop_of_rows(*operands, reverse)
    matrices, vectors, initial = map(move, operands)
    options = {"axis": 1, "reverse": reverse}
    states = mgrec.scan(mgrec.maps.matrix(2), matrices, vectors, initial=initial, **options)
    assert_like_the_loop(states, wanted)


# maps.matrix states where chunks, and segments on a GPU, differ from the loop.
IN_CHUNKS = tuple(name for name in GROWING if name != "inf and back")
IN_SEGMENTS = ("zeros", "resets", "decaying direction", "vanish and return")


@pytest.mark.parametrize(
    ("case", "move"),
    [
        *((name, as_numpy) for name in IN_CHUNKS),
        *(pytest.param(name, on_gpu, marks=pytest.mark.gpu) for name in IN_SEGMENTS),
    ],
)
@pytest.mark.parametrize("size", [1000, 2500])
@pytest.mark.parametrize("reverse", with_extended([False, True], False))
def test_chunks_of_growing_matrices_are_those_of_the_loop(case, size, reverse, move):
    operands = growing(case, 2, 5000, reverse)
    wanted = loop_of_rows(*operands, reverse)
    lazy = (in_chunks(x, 1, size).map_blocks(move) for x in operands[:2])
    options = {"axis": 1, "reverse": reverse}
    states = mgrec.scan(mgrec.maps.matrix(2), *lazy, initial=move(operands[2]), **options)
    assert_like_the_loop(states, wanted)


def assert_like_the_loop(states, wanted):
    """nan and inf are in the same elements, and other states are as large as those of the loop."""
    states = to_host(states)
    np.testing.assert_array_equal(np.isnan(states), np.isnan(wanted))
    np.testing.assert_array_equal(states[np.isinf(wanted)], wanted[np.isinf(wanted)])
    is_finite = np.isfinite(wanted)
    size = np.broadcast_to(np.fmax.reduce(abs(wanted), axis=-1, keepdims=True), wanted.shape)
    error = abs(states[is_finite] - wanted[is_finite])
    assert (error <= 1e-9 * size[is_finite]).all()


def loop_of_entries(matrix_map, matrices, vectors, initial):
    """The states of one sequence, from the entries of the structure alone: no other zeros meet inf."""
    n, structure, state, states = matrix_map.n, matrix_map.structure, list(initial), []
    multiply = np.multiply if matrix_map.algebra[0] == "+" else np.add
    fold = {"+": np.add, "max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}
    for M, b in zip(matrices, vectors, strict=True):
        if structure == "general":
            terms = [[multiply(M[i, j], state[j]) for j in range(n)] for i in range(n)]
        elif structure == "diagonal":
            terms = [[multiply(M[i], state[i])] for i in range(n)]
        else:
            terms = [[multiply(M[i], state[0]), *state[i + 1 : i + 2]] for i in range(n)]
        rows = zip(terms, b, strict=True)
        state = [reduce(fold[matrix_map.algebra[0]], [*row, last]) for row, last in rows]
        states.append(state)
    return np.array(states)


def with_infinity(matrix_map, signs, value, seed):
    """Operands of 60 steps, of which a vector has the value at the last steps of a chunk of 20."""
    generator, n = np.random.default_rng(seed), matrix_map.n
    least = -0.4 if signs == "mixed" else 0.01
    matrices = generator.uniform(least, 0.4, (60, *matrix_map.matrix_shape))
    if signs == "zeros":
        matrices[generator.uniform(size=matrices.shape) < 0.1] = matrix_map.zero
    vectors = generator.normal(size=(60, n))
    vectors[19 - seed % 2, seed % n] = np.nan if value == "nan" else -(matrix_map.zero or -np.inf)
    return matrices, vectors, np.zeros(n)


def on_three_ranks(scan, *operands):
    def of_rank(rank, group):
        part = (slice(0, 20), slice(20, 30), slice(30, 60))[rank]
        return scan(*[x[part] for x in operands], group=group)

    return run_on_ranks(3, of_rank)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("signs", ["mixed", "positive", "zeros"])
@pytest.mark.parametrize("structure", ["general", "diagonal", "companion"])
@pytest.mark.parametrize("algebra", ALGEBRAS, ids=str)
@pytest.mark.parametrize("seeds", [(0, 1, 2, 3, 7), pytest.param((4, 5, 6), marks=pytest.mark.extended)])
def test_chunks_after_infinite_states_are_those_of_the_loop(algebra, structure, signs, seeds, monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "4")
    divide_rows(monkeypatch)
    for seed in seeds:
        matrix_map = map_of(1 + seed % 4, algebra, structure)
        value = "nan" if seed == 3 else "inf"
        matrices, vectors, initial = with_infinity(matrix_map, signs, value, seed)
        wanted = loop_of_entries(matrix_map, matrices, vectors, initial)
        assert np.isfinite(wanted[:18]).all() and not np.isfinite(wanted[19]).all()
        scan = partial(mgrec.scan, matrix_map, initial=initial)
        assert_like_the_loop(scan(matrices, vectors), wanted)
        for chunks in ((20, 1, 39), (20, 2, 38), (20, 10, 30), (20, 40)):
            lazy = [da.from_array(x, chunks=(chunks, *x.shape[1:])) for x in (matrices, vectors)]
            assert_like_the_loop(scan(*lazy), wanted)
        states = on_three_ranks(scan, matrices, vectors)
        assert_like_the_loop(np.concatenate(states), wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("steps", "zero_step"), [(1, 20), (30, 35)], ids=["one step", "the first 16 of 30"])
def test_nan_takes_two_steps_to_both_states_of_a_companion_map(steps, zero_step):
    """The second chunk has nan in the last state alone: after all of its steps, or after the first ones."""
    matrix_map = map_of(2, ("+", "*"), "companion")
    matrices, vectors, initial = with_infinity(matrix_map, "positive", "inf", 0)
    matrices[zero_step, 1] = 0
    wanted = loop_of_entries(matrix_map, matrices, vectors, initial)
    assert np.isnan(wanted[zero_step]).tolist() == [False, True]
    lazy = (da.from_array(x, chunks=((20, steps, 40 - steps), -1)) for x in (matrices, vectors))
    assert_like_the_loop(mgrec.scan(matrix_map, *lazy, initial=initial), wanted)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("short_segments")
@pytest.mark.parametrize("algebra", ALGEBRAS[:3], ids=str)
def test_nan_of_a_diagonal_stays_in_its_state_in_chunks_on_a_gpu(algebra):
    matrix_map = map_of(2, algebra, "diagonal")
    matrices, vectors, initial = with_infinity(matrix_map, "positive", "nan", 0)
    wanted = loop_of_entries(matrix_map, matrices, vectors, initial)
    lazy = (in_chunks(x, 0, 20).map_blocks(on_gpu) for x in (matrices, vectors))
    assert_like_the_loop(mgrec.scan(matrix_map, *lazy, initial=on_gpu(initial)), wanted)


BEGUN = 2048
"""Steps of a chunk: products of 64 of the matrices below are less than 2**-2200."""


@each_memory
@pytest.mark.parametrize(
    ("n", "case", "begun"),
    [
        (2, "plain", 4),
        (2, "reverse", 4),
        (4, "plain", 4),
        (2, "large", 4),
        (2, "nan", 3),
        (2, "infinite", 4),
        (2, "growing", 0),
    ],
)
def test_chunks_begin_before_their_states_are_known(n, case, begun, move, monkeypatch, caplog):
    """Where the matrices of their first steps vanish together."""
    begin_matrices(monkeypatch)
    steps, rng, options = 4 * BEGUN, np.random.default_rng(n), {"reverse": case == "reverse"}
    scale = 0.5 / n if case == "growing" else 2.0**-40
    matrices, vectors = rng.uniform(-scale, scale, (steps, n, n)), rng.uniform(-1, 1, (steps, n))
    initial = np.full(n, {"large": 1e305, "infinite": np.inf}.get(case, 2.0))
    if case == "nan":
        vectors[BEGUN + 5] = np.nan
    wanted = mgrec.scan(map_of(n), matrices, vectors, initial=initial, axis=0, **options)
    lazy = [da.from_array(x, chunks=(BEGUN, *x.shape[1:])).map_blocks(move) for x in (matrices, vectors)]
    states = mgrec.scan(map_of(n), *lazy, initial=move(initial), axis=0, **options)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        found = to_host(states)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15)
    assert sum("does not depend on its carry-in" in record.msg for record in caplog.records) == begun


def test_blocks_of_rows_and_out():
    matrix_map = map_of(4, structure="block-diagonal")
    matrices, vectors, initial = drawn(matrix_map, 12, rows=(3,))
    states = mgrec.scan(matrix_map, matrices, vectors, initial=initial)
    for row in range(3):
        wanted = plain_loop(matrix_map, matrices[row], vectors[row], initial[row])
        np.testing.assert_allclose(states[row], wanted, rtol=1e-13, atol=1e-14)
    out = np.empty_like(states)
    assert mgrec.scan(matrix_map, matrices, vectors, initial=initial, out=out) is out
    np.testing.assert_array_equal(out, states)
    lazy = mgrec.scan(matrix_map, matrices[0, 0], in_chunks(vectors, 1), initial=initial)
    assert lazy.shape == states.shape and lazy.chunks[1] == (7, 5)
    full = np.broadcast_to(matrices[0, 0], matrices.shape)
    wanted = mgrec.scan(matrix_map, full, vectors, initial=initial)
    np.testing.assert_allclose(lazy, wanted, rtol=1e-13, atol=1e-14)
    with pytest.raises(ValueError, match=r"M must have shape \(..., 2, 2, 2\); got \(4, 4\)"):
        mgrec.scan(matrix_map, np.eye(4), vectors, initial=initial)


@pytest.mark.usefixtures("short_segments")
@each_memory
@pytest.mark.parametrize("n", [2, 5])
def test_nan_stays_in_its_segment(n, move):
    matrix_map = mgrec.maps.matrix(n)
    matrices, vectors, initial = drawn(matrix_map, 20)
    vectors[3] = np.nan
    marks = np.arange(20) == 10
    for place in (as_numpy, in_chunks):
        operands = [place(move(x)) for x in (matrices, vectors)]
        states = to_host(mgrec.scan(matrix_map, *operands, initial=initial, reset=marks))
        assert np.isnan(states[3:10]).all()
        assert not np.isnan(states[:3]).any() and not np.isnan(states[10:]).any()


def test_dtypes_and_out():
    matrix_map = mgrec.maps.matrix(2)
    matrices, vectors, initial = drawn(matrix_map, 20, dtype=np.float32)
    states = mgrec.scan(matrix_map, matrices, vectors, initial=initial)
    wanted = plain_loop(matrix_map, *(x.astype(float) for x in (matrices, vectors)), initial)
    assert states.dtype == np.float32
    np.testing.assert_array_equal(states, wanted.astype(np.float32))
    lazy = mgrec.scan(matrix_map, in_chunks(matrices), vectors, initial=initial)
    assert lazy.dtype == np.float32 and lazy.compute().dtype == np.float32
    assert mgrec.scan(matrix_map, matrices, vectors, initial=[0, 1.0]).dtype == np.float64
    integers = mgrec.scan(matrix_map, np.eye(2, dtype=int), np.ones((3, 2), int), initial=[0, 1])
    np.testing.assert_array_equal(integers, [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
    out = np.empty_like(states)
    assert mgrec.scan(matrix_map, matrices, vectors, initial=initial, out=out) is out
    np.testing.assert_array_equal(out, states)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ValueError, "n must be from 1 to 16; got 0"),
        ((17,), ValueError, "n must be from 1 to 16; got 17"),
        ((2.0,), TypeError, "n must be an integer"),
        ((2, ("*", "+")), ValueError, "algebra must be one of"),
        ((2, "plus"), ValueError, "algebra must be one of"),
        ((2, ("+", "*"), "banded"), ValueError, "structure must be one of 'general', 'diag"),
        ((4, ("+", "*"), "block-diagonal"), ValueError, "block must be passed for"),
        ((4, ("+", "*"), "companion", 2), ValueError, "block must be passed for"),
        ((4, ("+", "*"), "block-diagonal", 3), ValueError, "block must divide n, 4; got 3"),
        ((4, ("+", "*"), "block-diagonal", 2.0), TypeError, "block must be an integer"),
    ],
)
def test_wrong_maps_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        mgrec.maps.matrix(*arguments)


def test_wrong_operands_are_refused():
    def refuses(error, message, *operands, initial=(0.0, 0.0), **options):
        with pytest.raises(error, match=message):
            mgrec.scan(mgrec.maps.matrix(2), *operands, initial=np.array(initial), **options)

    eye, vectors = np.eye(2), np.ones((5, 2))
    refuses(ValueError, "two operands, M and b; got 1", eye)
    refuses(ValueError, r"M must have shape \(..., 2, 2\); got \(3, 3\)", np.eye(3), vectors)
    refuses(ValueError, r"b must have shape \(..., 2\); got \(5,\)", eye, np.ones(5))
    refuses(ValueError, "axis of steps", eye, np.ones(2))
    refuses(ValueError, "must broadcast", np.ones((4, 2, 2)), vectors)
    refuses(TypeError, "b must be real", eye, vectors + 1j)
    refuses(ValueError, "initial must have shape", eye, vectors, initial=(1.0, 2.0, 3.0))
    refuses(ValueError, "initial must have leading axes", eye, vectors, initial=np.ones((3, 2)))
    refuses(ValueError, "axis must be", eye, vectors, axis=1)
    refuses(TypeError, "reverse must be", eye, vectors, reverse=1)
    refuses(ValueError, "reset must have shape", eye, vectors, reset=np.zeros(4, bool))
    refuses(ValueError, "memory must be", eye, vectors, memory="none")
    refuses(ValueError, "method must be", eye, vectors, method="p-scheme")
    refuses(ValueError, "out must have shape", eye, vectors, out=np.empty((4, 2)))


def test_the_loop_of_these_tests_can_fail():
    matrix_map = mgrec.maps.matrix(2)
    matrices, vectors, initial = drawn(matrix_map, 5)
    wanted = plain_loop(matrix_map, matrices, vectors, initial)
    matrices[2, 0, 1] *= 1 + 1e-9
    states = mgrec.scan(matrix_map, matrices, vectors, initial=initial)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(states, wanted, rtol=1e-13, atol=1e-13)

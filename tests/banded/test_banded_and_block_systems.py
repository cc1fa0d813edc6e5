"""Systems of bands and of blocks, whose ends may meet, against dense systems of LAPACK."""

import dask.array as da
import numpy as np
import pytest
from banded_systems import (  # noqa: F401
    NAMES,
    RANDOM,
    TOLERANCE,
    bands,
    block_system,
    dense,
    dense_bands,
    dense_solve,
    draw,
    error,
    seeded,
    solver,
    system,
)
from chunkings import with_extended
from clusters import two_workers
from internals import divide_bands, merge_few_cells
from places import each_memory, from_gpu, in_chunks, on_gpu, to_host
from thread_group import run_on_ranks
from tridiagonal_matrices import matrix

import mgrec
from mgrec.dask import warm_up

each_system = pytest.mark.parametrize("name", NAMES)


def graded(n, of_rows):
    ab, scale = draw(5, n), np.logspace(0, -12, n)
    for r in range(5):
        ab[r] *= scale[(np.arange(n) + r - 2) % n] if of_rows else scale
    return ab


def constant(*column):
    return lambda n: np.array(column)[:, None] * np.ones(n)


def extended(name, n):
    """Five diagonals: a tridiagonal matrix of the table times its transpose."""
    dl, d, du = matrix(name, n)
    factor = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    product, ab = factor @ factor.T, np.zeros((5, n))
    for k in range(-2, 3):
        ab[2 - k, max(k, 0) : n + min(k, 0)] = np.diag(product, k)
    return ab


def without_corners(n):
    """Tridiagonal (1, 0, 1) of odd order: singular without its corners."""
    ab = constant(0.0, 1, 0, 1, 0)(n)
    ab[3, -1] = 2
    return ab


def with_strong_corners(n):
    ab = draw(5, n)
    ab[[0, 4], [1, -2]], ab[1, 0], ab[3, -1] = 1e8, -1e8, 1e7
    return ab


OF_ALL = {
    "random": lambda n: draw(5, n),
    "dominant": lambda n: bands(2, 2, n),
    "graded rows": lambda n: graded(n, True),
    "graded columns": lambda n: graded(n, False),
    "fourth differences": constant(1.0, -4, 6 + 1e-7, -4, 1),
    "without decay": constant(0.0, 1, 1, -1, 0),
}
TABLE = ("diagonal 64", "lesp", "inverse kms", "-1, 4, 1", "random, half of dl and du 0")
BANDS = {
    "bands": {**OF_ALL, **{name: lambda n, name=name: extended(name, n) for name in TABLE}},
    "periodic bands": {
        **OF_ALL,
        "singular without its corners": without_corners,
        "strong corners": with_strong_corners,
        "cyclic shift": constant(0.0, 0, 1e-17, 0, 1),
    },
}


def graded_blocks(n, k):
    scale = np.logspace(0, -12, n)
    return [scale[:, None, None] * blocks for blocks in block_system(n, k, dominance=0.0)[:3]]


def of_plate(n, k):
    """Fourth differences on a strip: a condition number of 1e9."""
    second = 2 * np.eye(k) - np.eye(k, k=1) - np.eye(k, k=-1)
    side, main = -np.eye(k), 2 * np.eye(k) + second * 1e-7
    return [blocks * np.ones((n, 1, 1)) for blocks in (side, main, side)]


def of_singular_blocks(n, k):
    """Blocks of the diagonal are singular, and those of dl and du regular."""
    dl, d, du, _ = block_system(n, k)
    d[:, 0] = 0.0
    return dl, d, du


def blocks_with_strong_corners(n, k):
    dl, d, du, _ = block_system(n, k, dominance=0.0)
    dl[0] *= 1e8
    return dl, d, du


OF_ALL_BLOCKS = {
    "random": lambda n, k: block_system(n, k, dominance=0.0)[:3],
    "singular blocks": of_singular_blocks,
}
BLOCKS = {
    "blocks": {**OF_ALL_BLOCKS, "graded": graded_blocks, "ill-conditioned": of_plate},
    "periodic blocks": {**OF_ALL_BLOCKS, "strong corners": blocks_with_strong_corners},
}
MATRICES = [
    *((name, 0, kind) for name in BANDS for kind in BANDS[name]),
    *((name, k, kind) for name in BLOCKS for kind in BLOCKS[name] for k in (2, 5, 8)),
]
PLACES = {"whole": (), "partitions": (), "chunks": (0.11, 0.33, 0, 0.01), "one chunk": (1.0,)}


def backward_error(full, x, b):
    return abs(full @ x - b).max() / (abs(full).sum(1).max() * abs(x).max() + abs(b).max())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "k", "kind"), MATRICES)
def test_errors_are_close_to_those_of_lapack(name, k, kind, place, monkeypatch):
    """Errors of random matrices scatter: the medians of 7 differ by less than a factor of 10."""
    errors, n = [], 301 // max(k, 1)
    solve, (*_, trailing) = solver(name, (2, 2))
    if place == "partitions":
        divide_bands(monkeypatch)
    sizes = [int(part * n) for part in PLACES[place]]
    chunks = (*sizes, n - sum(sizes)) if sum(sizes) < n else sizes
    for _ in range(7):
        matrices = BLOCKS[name][kind](n, k) if k else [BANDS[name][kind](n)]
        full, wanted = dense(solve, *matrices), draw(n, *(k,) * bool(k)) + 2
        b = (full @ wanted.ravel()).reshape(wanted.shape)
        given = da.from_array(b, chunks={0: tuple(chunks)}) if sizes else b
        solutions = dense_solve(full, b, trailing), np.asarray(solve(*matrices, given))
        errors.append([(error(x, wanted), backward_error(full, x.ravel(), b.ravel())) for x in solutions])
    lapack, found = np.median(errors, axis=0)
    assert (found <= 10 * np.maximum(lapack, np.finfo(float).eps)).all()


LEFT_OUT = {
    "bands": [(0, (0, 7)), (0, (3, 7))],
    "blocks": [(0, 7), (2, 7)],
    # Corners.
    "periodic bands": [(0, (0, 0)), (0, (2, -1)), (0, (3, -1))],
    "periodic blocks": [(0, 0), (2, -1)],
}
"""Of each kind of systems: operands, and entries of these."""


@each_system
def test_an_entry_that_is_left_out_would_be_seen(name):
    solve, operands, (*_, trailing) = system(name, 40)
    wanted = dense_solve(dense(solve, *operands[:-1]), operands[-1], trailing)
    assert error(solve(*operands), wanted) < TOLERANCE["d"]
    for number, entry in LEFT_OUT[name]:
        changed = [x.copy() for x in operands]
        changed[number][entry] = 0
        assert error(solve(*changed), wanted) > 1e-4


@each_system
def test_axes_and_matrices(name):
    solve, operands, trailing = system(name, 12, 3, 2)
    wanted = dense_solve(dense(solve, *operands[:-1]), operands[-1], trailing[-1])
    assert error(solve(*operands), wanted) < TOLERANCE["d"]
    is_moved = [bool(after) or k == 1 for k, after in enumerate(trailing)]
    moved = [x.swapaxes(1, 2) if move else x for x, move in zip(operands, is_moved, strict=True)]
    for axis in (1, 1 - 3):
        assert error(solve(*moved, axis=axis).swapaxes(1, 2), wanted) < TOLERANCE["d"]
    one, b = [x[0, 0] for x in operands[:-1]], operands[-1]
    assert error(solve(*one, b), dense_solve(dense(solve, *one), b, trailing[-1])) < TOLERANCE["d"]
    assert error(solve(*(x[:, :1] for x in operands[:-1]), b[0, 0])[0, 0], wanted[0, 0]) < TOLERANCE["d"]


@each_system
def test_integers_out_and_no_unknowns(name):
    solve, operands, _ = system(name, 4)
    integers = [np.rint(9 * x).astype(int) for x in operands]
    out = np.empty(operands[-1].shape)
    assert solve(*integers, out=out) is out
    np.testing.assert_array_equal(out, solve(*(x.astype(float) for x in integers)))
    for shape in ((0,), (0, 2), (4, 0)):
        solve, operands, _ = system(name, *shape)
        assert solve(*operands).shape == operands[-1].shape


@pytest.mark.parametrize("chunks", [(9, 13, 8), (1, 2, 3, 0, 1, 1, 22), (1,) * 30, (1,), (2,)])
@each_system
def test_chunks(name, chunks):
    solve, operands, trailing = system(name, sum(chunks), 2)
    wanted = dense_solve(dense(solve, *operands[:-1]), operands[-1], trailing[-1])
    lazy = [
        da.from_array(part, chunks={part.ndim - 1 - after: chunks, 0: 1})
        for part, after in zip(operands, trailing, strict=True)
    ]
    x = solve(*lazy)
    assert x.chunks[1] == chunks
    assert error(x.compute(), wanted) < TOLERANCE["d"]
    x = solve(*operands[:-1], lazy[-1], memory="two-pass")
    assert error(x.compute(), wanted) < TOLERANCE["d"]


@each_system
def test_chunks_of_several_partitions(name):
    solve, operands, _ = system(name, 5000)
    x = solve(*operands[:-1], da.from_array(operands[-1], chunks={0: 2600}))
    assert error(x.compute(), solve(*operands)) < 1e-13


@pytest.mark.parametrize("bounds", [(0, 10, 30), (0, 1, 3, 3, 30), (0, 0, 30)])
@each_system
def test_parts_of_ranks(name, bounds):
    solve, operands, trailing = system(name, 30, 2)

    def call(rank, group):
        part = slice(*bounds[rank : rank + 2])
        parts = [x[(..., part, *(slice(None),) * k)] for x, k in zip(operands, trailing, strict=True)]
        return solve(*parts, group=group)

    found = np.concatenate(run_on_ranks(len(bounds) - 1, call), 1)
    assert error(found, solve(*operands)) < TOLERANCE["d"]


@pytest.mark.parametrize(("name", "widths"), [("periodic bands", (4, 3)), ("bands", (0, 4))])
def test_few_unknowns_on_ranks(name, widths):
    solve, (ab, b), _ = system(name, 3, widths=widths)

    def call(rank, group):
        part = slice(*((0, 1, 1, 3)[rank : rank + 2]))
        return solve(ab[:, part], b[part], group=group)

    wanted = dense_solve(dense(solve, ab), b, 0)
    assert error(np.concatenate(run_on_ranks(3, call)), wanted) < 1e-12


@each_system
def test_plans(name):
    solve, operands, _ = system(name, 500)
    lazy = da.from_array(operands[-1], chunks={0: 200})
    arguments = *solve.args, *operands[:-1]
    with two_workers(processes=False) as client:
        warm_up(solve.func, *arguments, lazy, client=client, **solve.keywords)
        with mgrec.plan(solve.func, *arguments, lazy, **solve.keywords) as plan:
            x = plan(*arguments, 2 * lazy)
            assert error(x.compute(), 2 * solve(*operands)) < TOLERANCE["d"]


@pytest.mark.parametrize("dtype", with_extended("dFD", "D"))
@pytest.mark.parametrize("n", [40, 9000])
@each_system
@each_memory
def test_singular_systems_are_named(move, name, n, dtype):
    for unknown in (0, 1, n // 2, n - 1):
        solve, operands, _ = system(name, n, 3, dtype=dtype)
        *matrices, b = operands
        for x in matrices:  # a column of zeros, or a row of zeros of blocks
            x[(1, unknown, 1) if "blocks" in name else (1, ..., unknown)] = 0
        for given in (move(b), in_chunks(b, 1, n // 2 + 1).map_blocks(move)):
            with pytest.raises(np.linalg.LinAlgError, match=r"system \(1,\) is singular"):
                to_host(solve(*map(move, matrices), given))
        with pytest.raises(np.linalg.LinAlgError, match="the system is singular"):
            solve(*(move(x[1]) for x in (*matrices, b)))


def places_of_nan(name, number, n):
    """Entries of operands, and the words for them."""
    if "blocks" in name:
        yield 2, (number, 3, 1, 0), rf"du must .* at index \({number}, 3, 1, 0\)"
        if "periodic" in name:
            yield 2, (number, n - 1, 0, 1), rf"du must .* at index \({number}, {n - 1}, 0, 1\)"
        return
    yield 0, (number, 2, n // 2), rf"diagonal -1 of ab .* at index \({number}, {n // 2 + 1}\)"
    if "periodic" in name:
        yield 0, (number, 0, 0), rf"diagonal 1 of ab .* at index \({number}, {n - 1}\)"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [40, 9000])
@pytest.mark.parametrize("number", [0, 1])
@each_system
@each_memory
def test_systems_with_nan(move, name, number, n, bad):
    solve, operands, _ = system(name, n, 3)
    if name == "blocks":  # outside of the matrix
        operands[0][:, 0] = operands[2][:, -1] = np.nan
    *matrices, b = operands
    wanted = to_host(solve(*map(move, operands)))
    assert np.isfinite(wanted).all()
    others = np.arange(3) != number
    for operand, place, words in places_of_nan(name, number, n):
        wrong = [x.copy() for x in matrices]
        wrong[operand][place] = bad
        with pytest.raises(ValueError, match=words.replace(" at ", f" got {bad} at ")):
            solve(*map(move, wrong), move(b))
        for given in (move(b), in_chunks(b, 1, n // 2).map_blocks(move)):
            x = to_host(solve(*map(move, wrong), given, check_finite=False))
            assert np.isnan(x[number]).all()
            assert error(x[others], wanted[others]) < TOLERANCE["d"]
    b[2, 5] = bad
    with pytest.raises(ValueError, match=rf"b must .* got {bad} at index \(2, 5"):
        to_host(solve(*map(move, matrices), in_chunks(b, 1, n // 3).map_blocks(move)))


SIZES = [
    *(("bands", dtype, {"widths": widths}) for widths in [(1, 1), (2, 2), (4, 1)] for dtype in "fdFD"),
    *(
        ("blocks", dtype, {"k": k})
        for k, dtype in [(1, "f"), (2, "f"), (2, "d"), (3, "F"), (4, "D"), (8, "d")]
    ),
    *((f"periodic {name}", dtype, {}) for name in ("bands", "blocks") for dtype in "dF"),
]


@pytest.mark.gpu
@pytest.mark.parametrize("needs_pivots", [False, True])
@pytest.mark.parametrize(("name", "dtype", "size"), SIZES)
def test_cupy_arrays(name, dtype, size, needs_pivots, monkeypatch):
    if needs_pivots and "bands" in name:
        pytest.skip("blocks alone")
    merge_few_cells(monkeypatch)
    for rows, n in (((), 2), ((), 40), ((300,), 64), ((2100,), 9), ((2,), 9000)):
        solve, operands, _ = system(name, n, *rows, dtype=dtype, **size)
        if needs_pivots:
            operands[0], operands[1] = operands[0][..., :1, :, :], operands[1][..., ::-1, :]
        wanted = solve(*operands)
        found = from_gpu(solve(*map(on_gpu, operands)))
        assert found.dtype == dtype
        assert error(found, wanted) < TOLERANCE[dtype]
    lazy = in_chunks(operands[-1], 1, 4000).map_blocks(on_gpu)
    x = solve(*map(on_gpu, operands[:-1]), lazy)
    assert error(from_gpu(x.compute(scheduler="sync")), wanted) < TOLERANCE[dtype]

"""The kernels of tridiagonal systems on a CPU: chunks, partitions, pivots, systems of a batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tridiagonal_matrices import NAMES, error, gtsv, lines, matrix, with_solutions

from mgrec.core.arrays.chunk import Chunk
from mgrec.tridiagonal.cpu import phases
from mgrec.tridiagonal.cpu.partitions import LENGTH, empty_cells, part_count, partitions_of
from mgrec.tridiagonal.interface import Ends

# The tests of the public functions run the same kernels.
pytestmark = pytest.mark.extended

WHOLE = Ends(has_first=True, has_last=True)


def full_shape(operands):
    return np.broadcast_shapes(*(operand.shape for operand in operands))


def solve(operands, threads=1):
    shape = full_shape(operands)
    result = np.full(shape, np.nan, operands[0].dtype)
    chunk = Chunk(tuple(operands), shape, operands[0].dtype)
    phases.solve(WHOLE, chunk, result, threads)
    return result


def solve_chunks(operands, lengths):
    """As chunks of these lengths."""
    shape, dtype = full_shape(operands), operands[0].dtype
    assert sum(lengths) == shape[1]
    whole, at, jobs = Chunk(tuple(operands), shape, dtype), 0, []
    for length in lengths:
        ends = Ends(at == 0 and length > 0, at + length == shape[1] and length > 0)
        jobs.append((ends, whole.between(at, at + length)))
        at += length
    entries = phases.propagate([phases.precompute(*job) for job in jobs])
    results = [np.full(chunk.shape, np.nan, dtype) for _, chunk in jobs]
    for job, carry_in, result in zip(jobs, entries, results, strict=True):
        phases.determine(*job, carry_in, result)
    return np.concatenate(results, 1)


def even_lengths(n, count):
    return np.diff([n * k // count for k in range(count + 1)])


def draw(shape, dtype="d", seed=0):
    generator = np.random.default_rng(seed)
    operands = generator.uniform(-1, 1, (4, *shape))
    if np.dtype(dtype).kind == "c":
        operands = operands + 1j * generator.uniform(-1, 1, (4, *shape))
    return list(operands.astype(dtype))


def ways(operands):
    """The solutions by every way through the phases."""
    n = operands[1].shape[1]
    yield solve(operands)
    for count in (1, 7, 64):
        yield solve_chunks(operands, even_lengths(n, count))


def check_errors(dl, d, du):
    operands, x = with_solutions(dl, d, du)
    allowed = 5 * error(gtsv(operands), x) + 2 * np.finfo(d.dtype).eps
    for result in ways(operands):
        assert error(result, x) <= allowed


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_the_twenty_matrices_are_those_of_lapack(name):
    check_errors(*matrix(name))


@pytest.mark.parametrize("values", [(-1, 1, 1), (1, 1, -1), (-1, 2, 2), (2, 1, -2)])
def test_rows_that_pivoting_alone_lets_grow_do_not(values):
    """With pivoting alone 300 unknowns had errors of 1e4; the condition numbers are 2 to 4."""
    check_errors(*(np.full(300, float(value)) for value in values))


def test_an_error_in_the_ninth_digit_is_found():
    operands, x = with_solutions(*matrix("-1, 4, -1"))
    right = gtsv(operands)
    assert error(right * (1 + 1e-9), x) > 1e6 * error(right, x)


@pytest.mark.extended
@pytest.mark.parametrize(
    "dtype", ["f", *(pytest.param(k, marks=pytest.mark.extended) for k in "DF")]
)
def test_errors_in_every_dtype_are_those_of_lapack(dtype):
    operands = draw((1, 400, 1), dtype)
    check_errors(*(operand[0, :, 0] for operand in operands[:3]))
    assert all(result.dtype == dtype for result in ways(operands))


SIZES = st.sampled_from([0, 1, 2, 3, 5, LENGTH - 1, LENGTH, LENGTH + 1, 2 * LENGTH + 1])


@given(st.lists(SIZES, min_size=1, max_size=6), st.integers(0, 99))
def test_any_chunks_give_the_solution(lengths, seed):
    operands = draw((1, sum(lengths), 1), seed=seed)
    operands[1] += np.where(operands[1] > 0, 1, -1)
    if sum(lengths) == 0:
        assert solve(operands).shape == solve_chunks(operands, lengths).shape == (1, 0, 1)
        return
    expected = gtsv(operands)
    close = {"rtol": 1e-9, "atol": 1e-11 * abs(expected).max()}
    np.testing.assert_allclose(solve(operands), expected, **close)
    np.testing.assert_allclose(solve_chunks(operands, lengths), expected, **close)


@pytest.mark.parametrize("n", [2, 10, LENGTH, 500])
def test_chunks_that_are_singular_by_themselves_are_solved(n):
    """tridiag(1, 0, 1) of odd order is singular, and so is what lies inside a chunk of it."""
    operands = draw((1, n, 1))
    operands[0], operands[1], operands[2] = (np.full((1, n, 1), value) for value in (1.0, 0.0, 1.0))
    expected = gtsv(operands)
    lengths = [1, *[3] * (n // 3), n % 3 - 1] if n % 3 else [2, *[3] * (n // 3 - 1), 1]
    np.testing.assert_allclose(solve(operands), expected, atol=1e-11)
    np.testing.assert_allclose(solve_chunks(operands, lengths), expected, atol=1e-11)


BROADCAST = [
    [(3, 300, 4)] * 4,
    [(1, 300, 1), (1, 1, 1), (1, 300, 4), (3, 300, 4)],
    [(3, 1, 4), (3, 1, 1), (1, 1, 4), (3, 300, 4)],
    [(3, 300, 4), (3, 300, 1), (1, 300, 4), (1, 1, 1)],
]


@pytest.mark.parametrize("shapes", BROADCAST)
def test_systems_of_a_batch_are_solved_each_for_itself(shapes):
    operands = [draw(shape, seed=k)[0] for k, shape in enumerate(shapes)]
    operands[1] = operands[1] + 3
    expected = gtsv(operands)
    assert expected.shape == (3, 300, 4)
    np.testing.assert_allclose(solve(operands), expected, rtol=1e-12)
    np.testing.assert_allclose(solve_chunks(operands, [1, 149, 0, 150]), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 9, 1), (2, 9, 0), (3, 0, 2)])
def test_no_systems_and_no_rows(shape):
    operands = draw(shape)
    assert solve(operands).shape == shape
    assert solve_chunks(operands, [shape[1], 0]).shape == shape


def test_read_only_and_strided_operands_give_the_same_bits():
    operands = draw((3, 300, 4))
    expected = solve(operands)
    for operand in operands:
        operand.flags.writeable = False
    assert np.array_equal(solve(operands), expected)
    strided = [np.repeat(operand, 2, 1)[:, ::2] for operand in operands]
    assert np.array_equal(solve(strided), expected)


@pytest.mark.parametrize("shape", [(1, 9 * LENGTH + 5, 1), (5, 40, 3)])
def test_threads_change_no_bit(shape):
    operands = draw(shape)
    assert np.array_equal(solve(operands, threads=3), solve(operands))


@pytest.mark.parametrize("n", [1, 2, 3, LENGTH, 3 * LENGTH])
@pytest.mark.parametrize("dtype", ["d", "D"])
def test_interface_rows_hold_for_the_solution(n, dtype):
    operands = draw((2, n + 2, 3), dtype)
    operands[1] += 3
    x = gtsv(operands)
    chunk = Chunk(tuple(operands), x.shape, x.dtype).between(1, n + 1)
    rows = phases.precompute(Ends(False, False), chunk).rows
    ends = x[:, [0, 1, n, n + 1]].transpose(1, 0, 2)
    assert rows.shape == (2, 5, 2, 3)
    atol = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose((rows[:, :4] * ends).sum(1), rows[:, 4], atol=atol)


def test_entries_are_the_unknowns_around_each_chunk():
    operands = draw((2, 300, 3))
    x = np.pad(gtsv(operands), ((0, 0), (1, 1), (0, 0)))
    chunk = Chunk(tuple(operands), (2, 300, 3), np.dtype("d"))
    cuts = [(0, 0), (0, 120), (120, 121), (121, 121), (121, 300)]
    summaries = [phases.precompute(Ends(a == 0, b == 300), chunk.between(a, b)) for a, b in cuts]
    for (a, b), carry_in in zip(cuts, phases.propagate(summaries), strict=True):
        if a == b:
            assert carry_in is None
        else:
            around = x[:, [a, a + 1, b, b + 1]].transpose(1, 0, 2)
            np.testing.assert_allclose(carry_in, around, atol=1e-11)


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_first_dl_and_a_last_du_are_never_read(chunks):
    operands = draw((1, 300, 1))
    lengths = even_lengths(300, chunks)
    expected = solve(operands), solve_chunks(operands, lengths)
    for garbage in (np.nan, np.inf, 1e300, 0.0):
        operands[0][:, 0] = operands[2][:, -1] = garbage
        assert np.array_equal(solve(operands), expected[0])
        assert np.array_equal(solve_chunks(operands, lengths), expected[1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("operand", range(4))
def test_nan_and_inf_stay_in_their_system(operand, value):
    operands = draw((2, 300, 2))
    lengths = [100, 1, 150, 49]
    expected = solve(operands), solve_chunks(operands, lengths)
    operands[operand][1, 120, 0] = value
    results = solve(operands), solve_chunks(operands, lengths)
    for result, whole in zip(results, expected, strict=True):
        assert np.isnan(result[1, :, 0]).all()
        result[1, :, 0] = whole[1, :, 0]
        assert np.array_equal(result, whole)


@pytest.mark.parametrize("value", [np.nan, np.inf, complex(np.nan, 0), complex(0, np.nan)])
def test_a_system_of_nan_is_not_called_singular(value):
    operands = lines(*np.zeros((4, 50), type(value)))
    operands[1][0, 30] = value
    assert np.isnan(solve(operands)).all()
    assert np.isnan(solve_chunks(operands, [20, 30])).all()


def singular(kind, n):
    dl, d, du = (part.copy() for part in matrix("-1, 4, random", n))
    row = n // 2
    if kind == "a row of 0":
        dl[row] = d[row] = du[row] = 0
    elif kind == "a column of 0":
        dl[row + 1] = d[row] = du[row - 1] = 0
    elif kind == "two equal rows":
        dl[row], d[row], du[row] = 0, 1, 1
        dl[row + 1], d[row + 1], du[row + 1] = 1, 1, 0
    else:
        dl[:], d[:], du[:] = 1, 0, 1
    return lines(dl, d, du, np.full(n, 1e10))


@pytest.mark.parametrize("n", [5, LENGTH + 1, 501])
@pytest.mark.parametrize("kind", ["a row of 0", "a column of 0", "two equal rows", "odd 1, 0, 1"])
def test_singular_systems_are_said_to_be(kind, n):
    operands = singular(kind, n)
    with pytest.raises(np.linalg.LinAlgError, match=r"^system number 0 is singular: "):
        solve(operands)
    with pytest.raises(np.linalg.LinAlgError, match=r"^system number 0 is singular: "):
        solve_chunks(operands, even_lengths(n, 4))


def test_a_singular_system_of_a_batch_is_named():
    operands = draw((2, 300, 3))
    for operand in operands[:3]:
        operand[1, 130, 2] = 0
    said = r"^system number 5 is singular: "
    with pytest.raises(np.linalg.LinAlgError, match=said):
        solve(operands)
    with pytest.raises(np.linalg.LinAlgError, match=said):
        solve_chunks(operands, [100, 200])
    chunk = Chunk(tuple(operands), (2, 300, 3), np.dtype("d"))
    with pytest.raises(np.linalg.LinAlgError, match=said):
        phases.determine(WHOLE, chunk, np.ones((4, 2, 3)), np.empty(chunk.shape))


@pytest.mark.parametrize(("dtype", "most"), [("d", 900), ("f", 100), ("D", 900)])
def test_powers_of_two_on_rows_change_no_bit(dtype, most):
    operands = draw((1, 300, 1), dtype)
    powers = 2.0 ** np.random.default_rng(1).integers(-most, most, (1, 300, 1))
    scaled = [operand * powers.astype(operand.real.dtype) for operand in operands]
    assert np.array_equal(solve(scaled), solve(operands))
    assert np.array_equal(solve_chunks(scaled, [7, 293]), solve_chunks(operands, [7, 293]))


def test_rows_of_1e300_and_1e_300_are_alike():
    operands = draw((1, 300, 1))
    factors = np.random.default_rng(1).choice([1e300, 1e-300], (1, 300, 1))
    scaled = [operand * factors for operand in operands]
    np.testing.assert_allclose(solve(scaled), solve(operands), rtol=1e-10)


def test_columns_of_1e_280_are_solved():
    operands = draw((1, 300, 1))
    expected = solve(operands)
    powers = 2.0 ** np.random.default_rng(1).integers(-930, -900, 302)
    for shift in range(3):
        operands[shift] = operands[shift] * powers[shift : shift + 300, None]
    found = solve(operands)[0, :, 0] * powers[1:-1]
    np.testing.assert_allclose(found, expected[0, :, 0], rtol=1e-9)


@given(st.integers(1, 10 * LENGTH**2))
def test_partitions_are_all_the_rows_of_a_chunk(steps):
    groups = partitions_of(steps)
    assert groups[0].first == 0
    assert groups[-1].stop == part_count(steps)
    assert sum((group.stop - group.first) * group.length for group in groups) == steps
    assert all(0 < group.length <= LENGTH for group in groups)


def test_the_cells_are_a_small_part_of_an_operand():
    assert empty_cells(1, part_count(10**6), np.dtype("d")).nbytes < 0.06 * 8e6

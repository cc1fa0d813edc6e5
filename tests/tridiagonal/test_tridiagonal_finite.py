"""nan and inf in tridiagonal systems: an error that names them, or a system of nan."""

import dask
import numpy as np
import pytest
from tridiagonal_matrices import dominant, in_chunks, places

import mgrec

NAMES = ("dl", "d", "du", "b")
STEPS, SYSTEMS = 30, 12


def chunked(count):
    """Solve in so many chunks along n, the systems in two; 0 stands for NumPy."""

    def solve(*operands, **options):
        given = in_chunks(operands, count and (SYSTEMS // 2, STEPS // count))
        return np.asarray(mgrec.solve_tridiagonal(*given, **options))

    return solve


PLACES = places(chunked, 0, 1, 3)


def system():
    return dict(zip(NAMES, dominant((SYSTEMS, STEPS)), strict=True))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_an_operand_that_holds_one_is_named(name, value, place):
    operands = system()
    operands[name][3, 17] = value
    with pytest.raises(ValueError, match=rf"^{name} must hold no .* got {value} at .*\(3, 17\)"):
        place(*operands.values())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_unchecked_its_system_is_nan_and_no_other(name, value, place):
    operands = system()
    wanted = place(*operands.values())
    operands[name][1, 11] = value
    x = place(*operands.values(), check_finite=False)
    assert np.isnan(x[1]).all()
    np.testing.assert_array_equal(np.delete(x, 1, 0), np.delete(wanted, 1, 0))


@pytest.mark.parametrize("place", PLACES)
def test_entries_outside_the_matrix_are_not_checked(place):
    operands = system()
    wanted = place(*operands.values())
    operands["dl"][:, 0], operands["du"][:, -1] = np.nan, np.inf
    np.testing.assert_array_equal(place(*operands.values()), wanted)


@pytest.mark.parametrize("k", [1, STEPS - 2])
@pytest.mark.parametrize("name", NAMES)
def test_the_last_and_the_first_entry_inside_are_checked(name, k):
    operands = system()
    operands[name][2, k] = np.nan
    with pytest.raises(ValueError, match=rf"{name} must .*\(2, {k}\)"):
        chunked(STEPS)(*operands.values())


def test_a_part_that_is_computed_alone_is_checked():
    """The chunk that holds nan is another one than that which is asked for."""
    operands = system()
    operands["b"][0, 25] = np.nan
    x = mgrec.solve_tridiagonal(*in_chunks(operands.values(), (SYSTEMS, 10)))
    with pytest.raises(ValueError, match=r"b must .*\(0, 25\)") as caught:
        x[:, :5].compute(scheduler="sync")
    assert "chunk (0, 2)" in caught.value.__notes__[0]


def test_what_overflows_is_no_error():
    x = mgrec.solve_tridiagonal(0.0, np.full(3, 1e-300), 0.0, np.full(3, 1e300))
    assert not np.isfinite(x).any()
    large = mgrec.solve_tridiagonal(0.0, 1.0, 0.0, np.full(1000, 1e308))
    np.testing.assert_array_equal(large, 1e308)


def test_indices_are_those_of_the_operands_as_they_were_given():
    d, b = np.full(5, 3.0), np.ones((5, 2))
    d[4] = np.nan
    with pytest.raises(ValueError, match=r"d must .* at index \(4,\)"):
        mgrec.solve_tridiagonal(1.0, d, 1.0, b, axis=0, rhs_axis=1)
    with pytest.raises(ValueError, match=r"^du must hold no nan or inf; got inf. With"):
        mgrec.solve_tridiagonal(1.0, 3.0, np.inf, b, axis=0)


def test_scalars_of_systems_of_one_unknown_do_not_count():
    assert mgrec.solve_tridiagonal(np.nan, 2.0, np.inf, np.ones((3, 1))).tolist() == [[0.5]] * 3
    with pytest.raises(ValueError, match=r"^b must hold no"):
        mgrec.solve_tridiagonal(np.nan, 2.0, np.inf, np.array([np.nan]))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "value",
    [
        np.nan,
        np.inf,
        *(pytest.param(complex(*parts), marks=pytest.mark.extended) for parts in ((np.nan, 0), (0, np.nan))),
    ],
)
def test_a_system_of_nan_is_not_called_singular(value, count):
    operands = np.zeros((4, 50), type(value))
    operands[1][30] = value
    for given in (operands, in_chunks(operands, 50 // count)):
        x = mgrec.solve_tridiagonal(*given, check_finite=False)
        assert np.isnan(np.asarray(x)).all()


def test_finite_systems_have_the_same_bits_unchecked():
    lazy = in_chunks(system().values(), (2, 10))
    checked, not_checked = (
        mgrec.solve_tridiagonal(*lazy, check_finite=is_checked) for is_checked in (True, False)
    )
    np.testing.assert_array_equal(*dask.compute(checked, not_checked, scheduler="sync"))

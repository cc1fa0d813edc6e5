"""Many functions of the same code: numbers belong in operands."""

import warnings

import pytest

import mgrec

pytestmark = pytest.mark.quick

MOST = 32
"""Functions of the same code that are made without a warning."""


def decaying(rate):
    return mgrec.Coefficient(lambda i: rate)


def adding(amount):
    return mgrec.TransferMap(
        lift=lambda x: (x * amount,),
        compose=lambda earlier, later: (earlier[0] + later[0],),
        apply=lambda step, w: w + step[0],
        identity=(0.0,),
    )


@pytest.mark.parametrize(("make", "kind"), [(decaying, "Coefficient"), (adding, "TransferMap")])
def test_variants_are_told_once_where_they_are_made(make, kind):
    for number in range(MOST):
        make(0.5 + number)
        make(0.5 + number)
    with pytest.warns(UserWarning, match=rf"33 times a {kind} was made.*as operands") as told:
        make(0.25)
    assert [warning.filename for warning in told] == [__file__]
    make(0.125)


def test_scalar_operands_are_no_variants():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [mgrec.Coefficient(lambda i, rate: rate, 0.5 + k) for k in range(2 * MOST)]
    assert len({each.function for each in made}) == 1

"""Many functions of the same code: numbers belong in operands."""

import warnings

import pytest

import mgrec
from mgrec.core.algebra.variants import MAX_VARIANTS, is_within_limit

pytestmark = pytest.mark.quick


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
    for number in range(MAX_VARIANTS):
        make(0.5 + number)
        make(0.5 + number)
    with pytest.warns(UserWarning, match=rf"33 times a {kind} was made.*as operands") as told:
        make(0.25)
    assert [warning.filename for warning in told] == [__file__]
    make(0.125)


def test_the_first_variants_stay_ordinary():
    codes = (decaying.__code__,)
    assert all(is_within_limit(codes, str(number)) for number in range(MAX_VARIANTS))
    assert not is_within_limit(codes, "another")
    assert is_within_limit(codes, "0")


def test_scalar_operands_are_no_variants():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = [mgrec.Coefficient(lambda i, rate: rate, 0.5 + k) for k in range(2 * MAX_VARIANTS)]
    assert len({each.function for each in made}) == 1

"""Segmented maps keep the laws, and are told apart by what they are made of."""

import cloudpickle
import numpy as np
import pytest

import mgrec
from mgrec.core.algebra.transfer_map import affine, segmented, signed_affine

pytestmark = pytest.mark.quick


def mark(generator):
    return float(generator.integers(0, 2))


def normal(generator):
    return generator.normal()


@pytest.mark.parametrize(
    ("transfer_map", "states", "operands"),
    [(mgrec.maps.affine, 1, 2), (mgrec.maps.max_plus, 1, 2), (mgrec.maps.matrix2, 2, 6)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_laws_of_segmented_maps(transfer_map, states, operands):
    state = None if states == 1 else lambda generator: tuple(generator.normal(size=states))
    draws = [mark, *[normal] * (states + operands)]
    mgrec.check_laws(segmented(transfer_map, states, operands), *draws, state=state)


def test_nothing_before_a_mark_is_in_a_map():
    add = segmented(mgrec.maps.affine, 1, 2)
    before, after = add.lift(0, 1.0, np.nan, np.inf), add.lift(1, 1.0, 2.0, 3.0)
    assert add.apply(add.compose(before, after), np.nan) == 5
    assert np.isnan(add.apply(before, 0.0))


def test_a_segmented_map_comes_back_from_a_worker():
    add = segmented(mgrec.maps.affine, 1, 2)
    assert cloudpickle.loads(cloudpickle.dumps(add)) == add
    assert add != segmented(mgrec.maps.max_plus, 1, 2)


@pytest.mark.parametrize("s", [0.5, -0.25, 2.0, -8.0])
def test_states_of_0_and_inf_outlast_products_that_underflow_or_overflow(s):
    run = signed_affine.lift(np.float32(s), np.float32(0))
    with np.errstate(all="ignore"):
        for _ in range(10):
            run = signed_affine.compose(run, run)
        for state in (0, np.inf, -np.inf):
            assert signed_affine.apply(run, np.float32(state)) == state
            assert np.isnan(affine.apply(run[::2], np.float32(state))) == (
                run[0] == 0 if state else np.isinf(run[0])
            )
        stopped = signed_affine.compose(run, signed_affine.lift(np.float32(0), np.float32(1)))
        assert np.isnan(signed_affine.apply(stopped, np.float32(np.inf)))

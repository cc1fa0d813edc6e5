"""TransferMap: equal is what computes the same."""

import cloudpickle
import numpy as np
import pytest

import mgrec

pytestmark = pytest.mark.quick


def adding(amount=1.0, identity=(0.0,), **names):
    return mgrec.TransferMap(
        lift=lambda x: (x * amount,),
        compose=lambda earlier, later: (earlier[0] + later[0],),
        apply=lambda step, w: w + step[0],
        identity=identity,
        **names,
    )


def test_equal_maps_compute_the_same():
    assert adding() == adding()
    assert hash(adding()) == hash(adding())
    assert adding() == adding(name="sum")
    assert adding() != adding(2.0)
    assert adding() != adding(identity=(0,))
    assert adding() != "sum"


def test_pickled_maps_stay_equal_and_work():
    one = adding(3.0)
    again = cloudpickle.loads(cloudpickle.dumps(one))
    assert again == one
    assert hash(again) == hash(one)
    assert again.__dask_tokenize__() == one.__dask_tokenize__()
    assert mgrec.scan(again, np.ones(3), initial=0.0).tolist() == [3, 6, 9]


@pytest.mark.parametrize("role", ["lift", "compose", "apply"])
def test_functions_must_be_plain(role):
    parts = {"lift": np.sin, "compose": np.add, "apply": np.add}
    plain = {"lift": lambda x: (x,), "compose": lambda f, g: f, "apply": lambda f, x: x}
    with pytest.raises(TypeError, match=rf"{role} must be a plain Python function.*got <ufunc"):
        mgrec.TransferMap(**{**plain, role: parts[role]}, identity=(0,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"identity": 0.0}, r"identity must be a tuple of scalars.*got 0\.0"),
        ({"name": 3}, "name must be a string; got 3"),
        ({"vjp": "sum"}, "vjp must be a function or None; got 'sum'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(TypeError, match=message):
        adding(**options)


def test_a_map_is_named_after_its_lift():
    def _clipped_lift(x):
        return (x,)

    one = mgrec.TransferMap(_clipped_lift, lambda f, g: f, lambda f, x: x, (0,))
    assert one.name == "clipped"
    assert adding().name == "lambda"
    assert adding(name="sum").name == "sum"

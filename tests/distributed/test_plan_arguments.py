"""What a plan refuses before it looks for a cluster: see test_plans.py, too."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import mgrec


def test_a_plan_is_of_a_function():
    with pytest.raises(TypeError, match="recurrence must be a function of mgrec; got 'linear'"):
        mgrec.plan("linear", 0.5, da.ones(4))


def test_a_plan_is_over_a_dask_array():
    with pytest.raises(TypeError, match="needs a Dask array among its operands; got none"):
        mgrec.plan(mgrec.linear_recurrence, 0.5, np.ones(4))

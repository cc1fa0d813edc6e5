"""What only one side of np.where needs is computed in a branch, and nothing else is."""

import numpy as np

from mgrec.core.algebra.fingerprint import StepFunction
from mgrec.engines.cuda.tracing.functions import trace_coefficient


def traced(function, count=2):
    name = np.dtype("float64")
    return trace_coefficient(StepFunction(function), "f", (name,) * count, name)


def costly(x):
    return np.sin(np.exp(np.sqrt(np.cos(x + 1)) * 2))


def test_a_costly_side_runs_under_its_condition():
    text = traced(lambda i, x, y: np.where(x > 0, costly(y), y))
    before, branch = text.split("if (")
    assert "np_sin" not in before
    assert "np_sin" in branch.split("else")[0]


def test_two_costly_sides_exclude_each_other():
    text = traced(lambda i, x, y: np.where(x > 0, costly(y), np.tan(costly(x))))
    first, second = text.split("else")
    assert "np_tan" in second
    assert "np_tan" not in first


def test_what_both_sides_need_runs_before():
    text = traced(lambda i, x, y: np.where(x > 0, costly(y), 1 - costly(y)))
    assert "if (" not in text


def test_cheap_sides_are_selected():
    assert "if (" not in traced(lambda i, x, y: np.where(x > 0, x + y, x - y))


def test_a_value_that_outlives_the_branch_is_declared_before_it():
    def function(i, x, y):
        z = costly(y)
        first = np.where(x > 0, z, y)
        return first + np.where(x > 0, z + first, y)

    text = traced(function)
    assert "double v" in text.split("if (")[0].replace("const double", "")


def test_what_nothing_uses_is_left_out():
    text = traced(lambda i, x, y: (np.arctan(x), y)[1] + 1)
    assert "arctan" not in text


def test_a_guarded_choice_is_made_once():
    def function(i, x, y):
        odd = x > 1
        if np.any(odd):
            x = np.where(odd, costly(y), x)
        return np.arctan(x)

    text = traced(function)
    assert text.count("np_arctan") == 1
    assert "np_sin" not in text.split("if (")[0]


def test_a_guard_without_a_choice_runs_both_ways():
    def function(i, x, y):
        if np.any(x > 1):
            y = costly(y)
        return np.arctan(y)

    assert traced(function).count("np_arctan") == 2

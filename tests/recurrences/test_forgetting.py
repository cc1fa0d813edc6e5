"""Runs of steps that forget their entry are determined before it is known."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mgrec
from mgrec.backends.cpu import threads
from mgrec.backends.cpu.affine.reference import Judge

STEPS = 1 << 14


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Cut rows for threads where it would not pay, so that small tests do it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "SMALL", STEPS // 2)
        yield


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setenv("MGREC_NUM_THREADS", "2")


@st.composite
def recurrences(draw):
    """Coefficients, terms and an entry: (s, t, initial)."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    # 1.01 to the power of all steps is beyond float32.
    top = draw(
        st.sampled_from([0.5, 0.9, 0.99, 0.999, 1.0, 1.01 if dtype is np.float64 else 1.003])
    )
    steps = STEPS - draw(st.integers(0, 100))
    s = generator.uniform(draw(st.sampled_from([-1.0, 0.0, 0.9, 1.0])), 1.0, steps) * top
    s[generator.random(steps) < draw(st.sampled_from([0.0, 0.0, 0.001]))] = 0
    t = generator.normal(size=steps)
    t[generator.random(steps) < draw(st.sampled_from([0.0, 0.0, 0.99]))] = 0
    t[int(draw(st.sampled_from([1.0, 1.0, 0.3, 0.0])) * steps) :] = 0
    entry = generator.choice([-1, 1]) * 10.0 ** draw(st.integers(-8, 8))
    return s.astype(dtype), t.astype(dtype), dtype(entry)


def holds(w, s, t, initial):
    judge = Judge(w.dtype, float(initial))
    judge.add(*map(np.ascontiguousarray, (s, t, w)))
    return judge.holds


def again(caplog):
    """Steps that were determined again, of each solve that guessed its entries."""
    return [record.args[-1] for record in caplog.records if "apart" in record.msg]


@given(recurrences(), st.integers(2, 5), st.booleans())
def test_any_recurrence_stays_within_the_bound(recurrence, count, reverse):
    s, t, initial = recurrence
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MGREC_NUM_THREADS", str(count))
        w = mgrec.linear_recurrence(s, t, initial, reverse=reverse)
    turned = [array[::-1] if reverse else array for array in (w, s, t)]
    assert holds(*turned, initial)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_threads_guess_their_entries(dtype, caplog):
    s, t = np.random.default_rng(0).uniform(0, 0.9, (2, STEPS)).astype(dtype)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, 3)
    assert 0 < sum(again(caplog)) < 200
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(w[1:], s[1:] * w[:-1] + t[1:], rtol=tolerance)


def test_prefix_sums_do_not_guess(caplog):
    t = np.arange(STEPS, dtype=np.float64)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        np.testing.assert_array_equal(mgrec.linear_recurrence(1.0, t), np.cumsum(t))
        mgrec.linear_recurrence(np.full(STEPS, 1.001), t)
    assert not caplog.records


def test_a_wrong_guess_is_made_good_and_said(caplog):
    """The coefficients fall off at the start of the second half alone."""
    s, t = np.ones(STEPS), np.ones(STEPS)
    s[STEPS // 2 :][: STEPS // 64] = 0.9
    t[STEPS // 2 :] = 1e-30
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.linear_recurrence(s, t, 1e20)
    assert holds(w, s, t, 1e20)
    assert again(caplog) == [STEPS // 2]
    assert "do not forget" in caplog.text


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("at", [5, STEPS // 2 + 5, STEPS - 5])
def test_special_values_stand_where_the_loop_has_them(value, at):
    s, t = np.random.default_rng(0).uniform(-0.9, 0.9, (2, STEPS))
    t[at] = value
    s[STEPS - 3] = 0
    w, wanted = 1.0, np.empty(STEPS)
    with np.errstate(invalid="ignore"):
        for i in range(STEPS):
            wanted[i] = w = s[i] * w + t[i]
    found = mgrec.linear_recurrence(s, t, 1.0)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(found[at:], wanted[at:])


def test_integers_forget_at_a_zero_alone(caplog):
    t = np.random.default_rng(0).integers(-9, 9, STEPS)
    s = np.where(np.arange(STEPS) % 100 == 50, 0, 3)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        found = [mgrec.linear_recurrence(each, t, 7) for each in (s, np.full(STEPS, 3))]
    assert len(again(caplog)) == 1
    for each, own in zip((s, np.full(STEPS, 3)), found, strict=True):
        w, wanted = np.int64(7), []
        for i in range(STEPS):
            with np.errstate(over="ignore"):
                w = each[i] * w + t[i]
            wanted.append(w)
        np.testing.assert_array_equal(own, wanted)


def test_maps_whose_states_coincide_have_the_bits_of_one_thread(caplog, monkeypatch):
    """Lindley's waiting times: every idle server forgets the customers before."""
    s = np.random.default_rng(0).normal(-0.5, 1.0, STEPS)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        w = mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=25.0)
    (steps,) = again(caplog)
    assert 0 < steps < STEPS // 4
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")
    np.testing.assert_array_equal(w, mgrec.scan(mgrec.maps.max_plus, s, 0.0, initial=25.0))

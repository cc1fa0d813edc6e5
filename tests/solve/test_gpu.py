"""CuPy arrays through the public functions: devices, streams, kinds, memory."""

import numpy as np
import pytest
from oracles import linear, loop

import mgrec
from mgrec.signal import lfilter

pytestmark = pytest.mark.gpu


def drawn(count, seed=0):
    generator = np.random.default_rng(seed)
    return generator.uniform(-0.9, 0.9, count), generator.normal(size=count)


def check(w, s, t, initial=0.0):
    np.testing.assert_allclose(w.get(), loop(linear, (s, t), initial, float), rtol=1e-12, atol=1e-12)


def test_results_stay_on_the_device_of_the_operands():
    import cupy

    s, t = drawn(5000)
    for number in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(number):
            a, b = cupy.asarray(s), cupy.asarray(t)
        w = mgrec.linear_recurrence(a, b, 1.0)
        assert w.device.id == number
        check(w, s, t, 1.0)


@pytest.mark.parametrize("shape", [(5000,), (3, 40, 5)], ids=str)
def test_a_state_without_dimensions_is_every_rows(shape):
    import cupy

    t = np.random.default_rng(1).normal(size=shape)
    given = mgrec.linear_recurrence(0.5, cupy.asarray(t), cupy.asarray(2.0), axis=len(shape) // 2)
    wanted = mgrec.linear_recurrence(0.5, t, 2.0, axis=len(shape) // 2)
    np.testing.assert_allclose(given.get(), wanted, rtol=1e-12)


def test_work_is_queued_on_the_current_stream():
    import cupy

    s, t = drawn(1 << 20)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    results = []
    for stream in streams:
        with stream:
            a, b = cupy.asarray(s), cupy.asarray(t)
            results += [mgrec.linear_recurrence(a, b + k) for k in range(8)]
    for stream in streams:
        stream.synchronize()
    for k in range(8):
        first, *others = results[k::8]
        check(first, s, t + k)
        for w in others:
            np.testing.assert_array_equal(w.get(), first.get())


WAIT = r"""
extern "C" __global__ void wait(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles);
}"""


@pytest.mark.parametrize(
    "solve",
    [
        lambda x, k: mgrec.linear_recurrence(x, x, 1.5 + k),
        lambda x, k: mgrec.linear_recurrence(0.5, x, initial=-0.25 - k),
        lambda x, k: lfilter([0.5, 0.25], [1.0, -0.5], x, zi=x[:1] + k)[0],
    ],
    ids=["arrays", "constant", "filter"],
)
@pytest.mark.hardware
def test_a_call_does_not_wait_for_the_device(solve):
    import cupy

    x = cupy.asarray(drawn(10_000)[1])
    with cupy.cuda.Stream(non_blocking=True) as stream:
        solve(x, 0)
        stream.synchronize()
        cupy.RawKernel(WAIT, "wait")((1,), (1,), (2_000_000_000,))
        result = solve(x, 1)
        assert not stream.done
        stream.synchronize()
        cupy.testing.assert_array_equal(result, solve(x, 1))


def test_the_same_input_gives_the_same_bits():
    import cupy

    s, t = map(cupy.asarray, drawn(1 << 22))
    first = mgrec.linear_recurrence(s, t)
    for _ in range(5):
        assert (mgrec.linear_recurrence(s, t) == first).all()


def test_results_are_written_to_out():
    import cupy

    s, t = drawn(10_000)
    out = cupy.full(10_000, np.nan)
    assert mgrec.linear_recurrence(cupy.asarray(s), cupy.asarray(t), out=out) is out
    check(out, s, t)


def test_a_slice_that_begins_anywhere_is_taken_as_it_is():
    import cupy

    s, t = drawn(100_003)
    a, b = cupy.asarray(s), cupy.asarray(t)
    for begin in range(4):
        check(mgrec.linear_recurrence(a[begin:], b[begin:]), s[begin:], t[begin:])
        check(mgrec.linear_recurrence(a[begin::3], b[begin::3]), s[begin::3], t[begin::3])


@pytest.mark.parametrize("side", ["s", "t"])
def test_numpy_beside_cupy_is_refused(side):
    import cupy

    arrays = {"s": np.full(5, 0.5), "t": np.ones(5)}
    arrays[side] = cupy.asarray(arrays[side])
    with pytest.raises(TypeError, match="all be on a GPU or all in host memory"):
        mgrec.linear_recurrence(**arrays)


def test_an_untraceable_coefficient_is_refused_by_name():
    import cupy

    def rises(i):
        return 1.0 if i > 3 else 0.5

    with pytest.raises(TypeError, match=r"Coefficient 'rises' cannot run on a GPU.*np\.where"):
        mgrec.linear_recurrence(mgrec.Coefficient(rises), cupy.ones(5))


@pytest.mark.parametrize("method", ["auto", "p-scheme"])
@pytest.mark.hardware
def test_memory_beyond_the_result_is_small(method):
    import cupy

    s, t = (cupy.full(1 << 24, x) for x in (0.5, 1.0))
    mgrec.linear_recurrence(s, t, method=method)  # compiled, and its descriptors are there
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before, peak = pool.total_bytes(), []
    w = mgrec.linear_recurrence(s, t, method=method)
    peak.append(pool.total_bytes() - before)
    most = 1.01 if method == "auto" else 4.1  # P-scheme/G rearranges operands and result
    assert peak[0] <= most * w.nbytes


@pytest.mark.hardware
def test_more_elements_than_31_bits_count():
    import cupy

    count = 2**31 + 5
    t = cupy.ones(count, np.int8)
    w = mgrec.linear_recurrence(1, t)
    assert w.dtype == np.int8
    for at in (0, 126, 2**31 - 1, count - 1):
        assert int(w[at]) == (at + 1 + 128) % 256 - 128
    assert int(w[-1000:].astype(np.int64).sum()) == sum(
        (at + 1 + 128) % 256 - 128 for at in range(count - 1000, count)
    )

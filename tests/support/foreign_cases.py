"""Arrays of other libraries, and one call of every public function that takes arrays.

Imported by tests and by what runs them on a GPU, which has neither pytest nor Dask.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import mgrec
from mgrec.signal import decimate, ewm, filtfilt, lfilter, sosfilt, sosfiltfilt


def _data(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)


S, T, TABLE = _data(3, 40, seed=1), _data(3, 40, seed=2), _data(9, 12)
CUBE, LINE = _data(4, 5, 6), _data(60)
CODES = np.random.default_rng(3).integers(0, 4, 50, dtype=np.int32)
B, A = np.array([0.2, 0.1], np.float32), np.array([1.0, -0.7], np.float32)
SOS = np.array([[0.2, 0.1, 0.0, 1.0, -0.7, 0.1]], np.float32)


def _factored(dl, d, du, b):
    return mgrec.factor_tridiagonal(dl, d, du).solve(b)


def _aligned(query, target):
    return mgrec.smith_waterman(query, target, match=1, mismatch=-1, gap=-2)


CALLS = {
    "linear_recurrence": (mgrec.linear_recurrence, S, T),
    "of one coefficient": (lambda t, i: mgrec.linear_recurrence(0.5, t, i), T, T[:, 0]),
    "of a Coefficient": (
        lambda t: mgrec.linear_recurrence(mgrec.Coefficient(lambda i, x: x / (i + 1), t), t),
        LINE,
    ),
    "reverse along axis 0": (lambda s, t: mgrec.linear_recurrence(s, t, axis=0, reverse=True), S[:, :1], T),
    "rational_recurrence": (lambda a, b: mgrec.rational_recurrence(a, b, 1.0, 2.0, initial=0.5), S, T),
    "scan": (lambda s, t: mgrec.scan(mgrec.maps.max_plus, s, t, initial=0.0), S, T),
    "scan of several states": (
        lambda t: mgrec.scan(mgrec.maps.matrix2, t, 0.1, 0.1, t, 0.0, 0.0, initial=(1.0, 0.5)),
        LINE,
    ),
    "weighted_scan": (mgrec.weighted_scan, T, S),
    "weighted_scan by max": (
        lambda x: mgrec.weighted_scan(x, -0.25, operators=("max", "+"), inclusive=True),
        T,
    ),
    "lfilter": (lfilter, B, A, T),
    "lfilter and states": (lambda x, zi: lfilter(B, A, x, zi=zi), T, T[:, :1]),
    "sosfilt": (lambda x: sosfilt(SOS, x), T),
    "filtfilt": (lambda x: filtfilt(B, A, x), T),
    "filtfilt by Gustafsson": (lambda x: filtfilt(B, A, x, method="gust"), LINE),
    "sosfiltfilt": (lambda x: sosfiltfilt(SOS, x, axis=0, padlen=2), TABLE),
    "decimate": (lambda x: decimate(x, 2, 2), T),
    "ewm": (lambda x: ewm(x, span=5), T),
    "ewm unadjusted": (lambda x: ewm(x, alpha=0.3, adjust=False, axis=0), TABLE),
    "solve_tridiagonal": (mgrec.solve_tridiagonal, S, T + 2, S, T),
    "factor_tridiagonal": (_factored, S, T + 2, S, T),
    "solve_banded": (partial(mgrec.solve_banded, (2, 1)), np.stack([S, T + 3, S, S], 1), T),
    "summed_area_table": (mgrec.summed_area_table, TABLE),
    "summed_area_table of a volume": (lambda x: mgrec.summed_area_table(x, axes=(0, 1, 2)), CUBE),
    "wavefront": (lambda x: mgrec.wavefront(x, weights=(0.3, 0.3, 0.2), floor=0.0), TABLE),
    "sor": (lambda x, rhs: mgrec.sor(x, rhs, omega=1.2, sweeps=3), TABLE, TABLE / 10),
    "smith_waterman": (_aligned, CODES, CODES[10:30]),
}
"""By name: a function of arrays, and the arrays."""


@dataclass(frozen=True)
class Library:
    """How tests make arrays of a library, and read them.

    Attributes
    ----------
    name : str
    make : callable, ``(numpy.ndarray) -> array``
    read : callable, ``(array) -> numpy.ndarray``
    kind : type
        Of its arrays.
    address : callable, ``(array) -> int``
        Of the memory of an array.
    """

    name: str
    make: object
    read: object
    kind: type
    address: object


def strict(xp):
    """The array API and nothing else, in host memory."""
    return Library(
        "array_api_strict",
        lambda x: xp.asarray(x, copy=True),
        np.from_dlpack,
        type(xp.asarray(1.0)),
        lambda x: np.from_dlpack(x).ctypes.data,
    )


def of_torch(torch, device="cpu"):
    return Library(
        f"torch on {device}",
        lambda x: torch.tensor(x, device=device),
        lambda x: x.cpu().numpy(),
        torch.Tensor,
        lambda x: x.data_ptr(),
    )


def of_jax(jax, device=None):
    return Library(
        f"jax on {device or 'cpu'}",
        lambda x: jax.device_put(x, device or jax.devices("cpu")[0]),
        np.asarray,
        jax.Array,
        lambda x: x.unsafe_buffer_pointer(),
    )


def flat(result):
    """All arrays and numbers of a result."""
    return [x for item in result for x in flat(item)] if isinstance(result, tuple) else [result]


def check(library, name, reference=None):
    """Assert that a call gives arrays of a library the numbers of NumPy arrays, or of another's."""
    call, *arrays = CALLS[name]
    other = reference or replace(library, make=np.array, read=np.asarray, kind=np.ndarray)
    expected = flat(call(*map(other.make, arrays)))
    found = flat(call(*map(library.make, arrays)))
    assert len(found) == len(expected)
    for own, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, other.kind):
            assert isinstance(own, library.kind), (name, type(own))
            own, wanted = library.read(own), other.read(wanted)
        assert np.asarray(own).dtype == np.asarray(wanted).dtype, (name, own, wanted)
        np.testing.assert_array_equal(own, wanted, err_msg=name)

"""Decimation: a low-pass filter, and every q-th of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import asinh, isnan, sqrt
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy, widened, without_empty_chunks
from ..core.arrays.chunk import as_contiguous, canonical_shape
from ..core.arrays.interop import to_native
from ..core.arrays.series import is_series
from ..core.arrays.validation import as_axis, as_flag, as_integer
from ..core.backends import backend_of
from ..core.contract.recurrence import filter_chunk
from ..distributed.expressions import accepts_expressions
from ..distributed.groups.calls import CALL
from ..solve import with_interop
from ..solve.labelled import axis_of, bind, default_axis
from .arguments import as_result_dtype, as_signal, result_dtype
from .cascade import Cascade
from .causal import sosfilt_zi, steady_states
from .kernels import kernels_of
from .overlap import (
    OverlappedFilter,
    PaddedEnds,
    concatenate_steps,
    counts_of_results,
    parts_between,
    starts_of,
)
from .zero_phase import padding_of_polynomials, padding_of_sections, solve_directed

CELLS = 1 << 15
"""Results of a block, which stay in the cache while taps are added. 201 taps over 60,000 steps of
384 columns of int16, for every tenth sample, took 14 ns a sample, and 47 in one block."""


def _decimate_labelled(
    function: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any], *, like: Any = None
) -> Any:
    """Decimate a DataArray, a Series or a DataFrame: keep the labels of the samples that remain.

    `like` is the data of a method, whose axis is the name of a dimension.
    """
    bound, by_name = bind(function, operands, options)
    arguments = bound.arguments
    x, q = arguments["x"], as_integer("q", arguments["q"])
    if CALL.get() is not None:
        raise TypeError(
            f"x must be an array on a group, whose ranks keep samples of the whole signal; got a "
            f"{type(x).__name__}: pass its numbers"
        )
    if is_series(x):
        axis = as_axis(arguments.get("axis", 0), x.shape)
        arguments["x"], arguments["axis"] = to_native("x", x), axis
        data = function(*bound.args, **bound.kwargs)
        kept = x.iloc[(slice(None),) * axis + (slice(None, None, q),)]
        labels = {"name": x.name} if x.ndim == 1 else {"columns": kept.columns}
        return type(x)(data, index=kept.index, **labels)
    is_name = bool(by_name) or like is not None
    if "axis" in arguments:
        label = "dim" if is_name else "axis"
        axis = axis_of(arguments["axis"], x.dims, x.shape, label, is_name)
    else:
        axis = default_axis(x.dims)
    arguments["x"], arguments["axis"] = x.data, axis
    data = function(*bound.args, **bound.kwargs)
    return x.isel({x.dims[axis]: slice(None, None, q)}).copy(data=data)


_decimate_labelled.takes_series = True  # type: ignore[attr-defined]


@partial(with_interop, labelled=_decimate_labelled, takes_group=True)
@accepts_expressions
def decimate(
    x: Any,
    q: int,
    n: int | None = None,
    ftype: Any = "iir",
    axis: int = -1,
    zero_phase: bool = True,
    *,
    dtype: Any = None,
    assume_finite: bool = False,
) -> Any:
    """Apply a low-pass filter to a signal, and keep every q-th of its samples.

    The arguments and results are those of ``scipy.signal.decimate``. SciPy must be installed unless
    `ftype` is "iir".

    Parameters
    ----------
    x : array_like, CuPy or dask.array.Array
        Signal.
    q : int
        Factor of the sampling rate. For factors above 13, SciPy recommends several calls if the
        response is infinite.
    n : int, optional
        Order of the filter: by default 8 for "iir", and 20·q for "fir", which has n + 1 taps.
    ftype : {"iir", "fir"} or scipy.signal.dlti, optional
        Chebyshev filter of type I, or window of Hamming; or a filter.
    axis : int, optional
        Axis along which to decimate. The default is the last, or the index of a DataFrame.
    zero_phase : bool, optional
        Whether the phase is not shifted. An infinite response is then applied forward and backward.
    dtype : dtype, optional
        Dtype of the result, as for :func:`filtfilt`.
    assume_finite : bool, optional
        Whether `x` contains neither nan nor inf, as for :func:`filtfilt`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        Samples 0, q, 2·q, … of the filtered signal. Those of a chunk of `x` are a chunk. A Series
        or a DataFrame keeps the labels of these samples.

    Raises
    ------
    ImportError
        If SciPy is not installed, and `ftype` is not "iir".
    TypeError
        If an argument has the wrong type, or `dtype` is not one of the result.
    ValueError
        If q or n is below 1, `ftype` is unknown, `x` is shorter than the extension of
        :func:`sosfiltfilt`, or chunks have unknown sizes.

    Notes
    -----
    A finite response is applied for q = 1, too. SciPy then returns `x` as it is for a ``dlti``.

    *Memory.* Samples that are not kept are released block by block, if NumPy arrays have many rows
    or columns, or chunk by chunk. Chunks of Dask arrays depend on their neighbours under the
    conditions of :func:`filtfilt`; those of a finite response always do.

    *Accuracy.* That of :func:`sosfiltfilt`. A finite response is summed from the first tap to the
    last, with the same bits in any chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import decimate
    >>> decimate(np.arange(1000.0), 10, ftype="fir")[30:33].round(6)
    array([300., 310., 320.])
    """
    x = as_signal(x)
    axis, q = as_axis(axis, x.shape), as_integer("q", q)
    n = None if n is None else as_integer("n", n)
    for name, value in (("q", q), ("n", n)):
        if value is not None and not 1 <= value < 2**31:
            raise ValueError(f"{name} must be at least 1 and below 2**31; got {value}")
    zero_phase = as_flag("zero_phase", zero_phase)
    is_finite = as_flag("assume_finite", assume_finite)
    backend_of(x).raise_if_capturing("a filter", "the initial states are copied to the device")
    form, coefficients = design(x, q, n, ftype)
    x = widened(x)  # the extension of a signal has the dtype of the signal
    if form == "fir":
        (taps,) = coefficients
        computed = np.result_type(taps, x.dtype, np.float32)
        fir = DecimatedResponse(tuple(taps.tolist()), q, zero_phase, computed)
        return _filtered(fir, x, axis, as_result_dtype(dtype, computed))
    if form == "sos":
        (sos,) = coefficients
        cascade, states, edge = Cascade.of_sections(sos), sosfilt_zi(sos), padding_of_sections(sos)
    else:
        b, a = coefficients
        cascade, states = Cascade.of_polynomials(b, a), steady_states(b, a)
        edge = padding_of_polynomials(b, a)
    computed = result_dtype(*coefficients, x)
    ends = PaddedEnds("odd", edge, tuple(states.ravel().tolist())) if zero_phase else PaddedEnds()
    wanted = as_result_dtype(dtype, computed)
    directed = OverlappedFilter(cascade, computed, 0, zero_phase, ends, q)
    return solve_directed(directed, x, axis, wanted, is_finite)


def design(x: Any, q: int, n: int | None, ftype: Any) -> tuple[str, tuple[np.ndarray, ...]]:
    """Return "fir" and taps, "sos" and sections, or "ba" and polynomials, as SciPy chooses them."""
    dtype = x.dtype if x.dtype.char in "fdFD" else np.dtype(np.float64)
    if isinstance(ftype, str) and ftype == "iir":
        return "sos", (_chebyshev_sections(8 if n is None else n, 0.8 / q).astype(dtype),)
    try:
        from scipy import signal
    except ImportError as error:
        raise ImportError("decimate designs this filter with SciPy: install mgrec[scipy]") from error
    if isinstance(ftype, signal.dlti):
        zpk = ftype.to_zpk()
        tf = ftype.to_tf()
        if not zpk.poles.size:
            return "fir", (np.asarray(tf.num / tf.den),)
        if np.iscomplex(zpk.poles).any() or np.iscomplex(zpk.gain):
            return "ba", (np.asarray(tf.num), np.asarray(tf.den))
        return "sos", (signal.zpk2sos(zpk.zeros, zpk.poles, zpk.gain).astype(dtype),)
    if not isinstance(ftype, str) or ftype != "fir":
        raise ValueError(f"ftype must be 'iir', 'fir' or a scipy.signal.dlti; got {ftype!r}")
    taps = signal.firwin((20 * q if n is None else n) + 1, 1 / q, window="hamming")
    return "fir", (taps.astype(dtype),)


def _chebyshev_sections(n: int, cutoff: float) -> np.ndarray:
    """Return ``scipy.signal.cheby1(n, 0.05, cutoff, output="sos")``, bit for bit.

    To import scipy.signal takes 0.8 s, more than to compile the filter.
    """
    ripple = sqrt(10 ** (0.1 * 0.05) - 1.0)
    poles = -np.sinh(1.0 / n * asinh(1 / ripple) + 1j * (np.pi * np.arange(-n + 1.0, n, 2) / (2 * n)))
    gain = np.prod(-poles).real / (1.0 if n % 2 else sqrt(1 + ripple * ripple))
    warped = 4.0 * np.tan(np.pi * cutoff / 2.0)
    poles *= warped
    gain = gain * warped**n * (1 / np.prod(4.0 - poles)).real
    poles = (4.0 + poles) / (4.0 - poles)
    pairs = (poles[: n // 2] + poles[::-1][: n // 2].conj()) / 2
    pairs = pairs[np.lexsort((pairs.real, -abs(1 - abs(pairs))))]
    sections = [[1, 2, 1, *np.poly([pole, pole.conjugate()]).real] for pole in pairs]
    if n % 2:
        sections.insert(0, [1, 2, 1, 1, -poles[n // 2].real, 0])
        # A zero less, in the last section whose poles are nearer to 0 than to the zeros at -1.
        last = max([0, *(k for k, pole in enumerate(pairs, 1) if pole.real > -0.5)])
        sections[last][:3] = 1, 1, 0
    sos = np.array(sections, float)
    sos[0, :3] *= gain
    return sos


def _filtered(fir: DecimatedResponse, x: Any, axis: int, dtype: np.dtype[Any]) -> Any:
    """Return the kept results of a finite response."""
    if (call := CALL.get()) is not None:
        from ..distributed.groups.solve import filter_part

        return filter_part(call, fir, x, axis, dtype)
    if is_lazy(x):
        from ..distributed.graph.build import solve_filter

        if any(map(isnan, x.chunks[axis])):
            raise ValueError(
                "x must be in chunks of known sizes to be decimated: call compute_chunk_sizes() on it"
            )
        x = without_empty_chunks(x)
        counts = counts_of_results(x.chunks[axis], fir.q)
        return without_empty_chunks(solve_filter(fir, x, axis, dtype, counts))
    _, recipe = fir.plan((x.shape[axis],), 0)
    with backend_of(x).device_of((x,)):
        return filter_chunk(fir, x, axis, dtype, recipe, ())


@dataclass(frozen=True)
class DecimatedResponse:
    """A finite response at every q-th sample: y_m = Σ_k taps_k·x_(m·q + delay − k)."""

    taps: tuple[Any, ...]
    q: int
    is_centred: bool
    dtype: np.dtype[Any]

    @property
    def delay(self) -> int:
        """Number of samples by which results are shifted back."""
        return (len(self.taps) - 1) // 2 if self.is_centred else 0

    def plan(self, lengths: Sequence[int], chunk: int, count: int = 1) -> tuple[list[tuple[int, Any]], Any]:
        """Return the parts (chunk, (start, stop)) that `count` chunks need.

        `apply` also gets the number of parts before the chunk, the index of the first sample, and
        the range of the results.
        """
        starts = starts_of(tuple(lengths))
        first, last = starts[chunk], starts[chunk + count]
        results = range(-(-first // self.q), -(-last // self.q))
        if results:
            first = min(first, results[0] * self.q + self.delay - len(self.taps) + 1)
            last = max(last, results[-1] * self.q + self.delay + 1)
        first, last = max(first, 0), min(last, starts[-1])
        parts, before = parts_between(starts, chunk, first, last, count)
        return parts, (before, first, results)

    def count(self, length: int, recipe: Any) -> int:
        """Return the number of results of a chunk."""
        return len(recipe[2])

    def written_bytes(self, x: Any, axis: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes that a GPU writes for a sample of x, for results of a dtype."""
        return int(x.dtype.itemsize + 2 * self.dtype.itemsize)

    def part(self, x: Any, axis: int, part: tuple[int, int]) -> Any:
        """Return samples of a chunk."""
        return x[(slice(None),) * axis + (slice(*part),)].copy(order="C")

    def apply(self, x: Any, axis: int, dtype: np.dtype[Any], recipe: Any, parts: Sequence[Any]) -> Any:
        """Return the results of a chunk, or of a list of chunks."""
        before, first, results = recipe
        chunks = x if type(x) is list else [x]
        x, backend = chunks[0], backend_of(chunks[0])
        pieces = [as_contiguous(p) for p in (*parts[:before], *chunks, *parts[before:])]
        pieces = [p.reshape(canonical_shape(p.shape, axis)) for p in pieces]
        signal = concatenate_steps(backend, pieces)
        shape = (*x.shape[:axis], len(results), *x.shape[axis + 1 :])
        result = backend.empty(shape, dtype)
        rows = result.reshape(canonical_shape(shape, axis))
        respond = kernels_of(backend).respond
        if respond and self.dtype.char in "fd" and signal.dtype.kind in "iuf" and self.q < 1 << 24:
            start = results.start * self.q + self.delay - first
            respond(self.taps, signal, start, self.q, self.dtype, rows)
            return result
        size = max(1, CELLS // max(1, rows.shape[0] * rows.shape[2])) if backend.is_host else None
        for left in range(0, len(results), size or max(1, len(results))):
            block = results[left : left + size] if size else results
            rows[:, left : left + len(block)] = self._block(signal, first, block)
        return result

    def _block(self, samples: Any, first: int, results: range) -> Any:
        """Return results from samples (outer, steps, inner), the first of which has this index."""
        outer, steps, inner = samples.shape
        total = np.zeros_like(samples, self.dtype, shape=(outer, len(results), inner))
        for k, tap in enumerate(self.taps):
            # Result j needs the sample start + j·q, which is 0 outside of the signal.
            start = results[0] * self.q + self.delay - k - first
            low = max(0, -(start // self.q))
            high = min(len(results), -((start - steps) // self.q))
            if low < high:
                earliest = start + low * self.q
                latest = earliest + (high - low - 1) * self.q
                kept = samples[:, earliest : latest + 1 : self.q]
                # Taps are Python numbers, which do not widen the dtype of a product.
                total[:, low:high] += np.multiply(kept, tap, dtype=self.dtype)
        return total

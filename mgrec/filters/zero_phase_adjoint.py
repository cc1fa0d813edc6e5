"""Adjoints of filters with zero phase, and of decimation: gradients of the signal.

A filter that starts from the steady state of its first sample is F·v + v_0·r. F is the filter from
states of 0, and r the response to the steady states. With the reversal R, the extension E of the
signal and the selection S of samples, the result is S·R·F'·R·F'·E·x, where F' = F + r·e_0ᵀ. The
adjoint of F is R·F·R, so that the one of F' is R·F·R + e_0·rᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast
from ..core.arrays.interop import to_native
from ..core.arrays.validation import as_axis
from ..solve.adjoint import conj, from_host, part, summed
from ..solve.functions import concatenate, flip, full_like
from ..solve.rules import Rule, numpy_dtype
from . import causal, decimation, zero_phase
from .arguments import as_sections, as_transfer_function, result_dtype

_Filter = Callable[..., Any]
"""``(signal, axis, states) -> outputs``; `states` may be None."""


def _filter(function: Any, *coefficients: Any) -> _Filter:
    def filtered(signal: Any, axis: int = -1, states: Any = None) -> Any:
        result = function(*coefficients, signal, axis, states)
        return result if states is None else result[0]

    return filtered


def _zero_phase_adjoint(
    filtered: _Filter, states: Any, grad: Any, axis: int, padtype: str | None, edge: int
) -> Any:
    """Return the gradient of the signal from that of all samples of the result."""
    ends = _zeros(grad, axis, edge)
    grad = concatenate([ends, grad, ends], axis)
    response = filtered(np.zeros(grad.shape[axis]), states=states)
    response = conj(response).reshape(-1, *[1] * (grad.ndim - 1 - axis))
    response = from_host(cast(response, numpy_dtype(grad)), grad)
    for _ in range(2):
        in_reverse = flip(grad, axis)
        grad = flip(filtered(grad, axis), axis)
        first = part(grad, axis, 0, 1) + (response * in_reverse).sum(axis=axis, keepdims=True)
        grad = concatenate([first, part(grad, axis, 1, None)], axis)
    return _folded(grad, axis, padtype, edge)


def _folded(grad: Any, axis: int, padtype: str | None, edge: int) -> Any:
    """Return the gradient of a signal from that of its extension by `edge` samples at each end."""
    if edge == 0:
        return grad
    length = grad.shape[axis] - 2 * edge
    sign, of_end = {"odd": (-1, 2), "even": (1, 0), "constant": (0, 1)}[str(padtype)]
    before, after = part(grad, axis, 0, edge), part(grad, axis, edge + length, None)
    unchanged = _zeros(grad, axis, length - edge - 1)
    sums = [of_end * values.sum(axis=axis, keepdims=True) for values in (before, after)]
    mirrored = [sign * flip(values, axis) for values in (before, after)]
    of_start = concatenate([sums[0], mirrored[0], unchanged], axis)
    of_stop = concatenate([unchanged, mirrored[1], sums[1]], axis)
    return part(grad, axis, edge, edge + length) + of_start + of_stop


def _zeros(like: Any, axis: int, length: int) -> Any:
    """Return zeros of a length along an axis, at most that of an array."""
    return full_like(part(like, axis, 0, length), 0)


def _compose(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    axis, padtype = as_axis(arguments["axis"], grad.shape), arguments["padtype"]
    if "sos" in arguments:
        sos = as_sections(to_native("sos", arguments["sos"]))
        filtered = _filter(causal.sosfilt, conj(sos))
        states, default = causal.sosfilt_zi(sos), zero_phase.padding_of_sections(sos)
    else:
        b, a = as_transfer_function(*[to_native(name, arguments[name]) for name in "ba"])
        filtered = _filter(causal.lfilter, conj(b), conj(a))
        states, default = causal.lfilter_zi(b, a), zero_phase.padding_of_polynomials(b, a)
    edge = zero_phase.edge_of(padtype, arguments["padlen"], default)
    grad_x = _zero_phase_adjoint(filtered, conj(states), grad, axis, padtype, edge)
    return summed({"x": grad_x}, arguments, of)


def _compose_decimate(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    x, q, axis = arguments["x"], arguments["q"], as_axis(arguments["axis"], grad.shape)
    # Zeros follow each sample.
    upsampled = grad[(slice(None),) * (axis + 1) + (None,)]
    upsampled = concatenate([upsampled, *[full_like(upsampled, 0)] * (q - 1)], axis + 1)
    upsampled = upsampled.reshape(*grad.shape[:axis], grad.shape[axis] * q, *grad.shape[axis + 1 :])
    upsampled = part(upsampled, axis, 0, x.shape[axis])
    sos = _sections(arguments)
    filtered = _filter(causal.sosfilt, sos)
    if arguments["zero_phase"]:
        states, edge = causal.sosfilt_zi(sos), zero_phase.padding_of_sections(sos)
        grad_x = _zero_phase_adjoint(filtered, states, upsampled, axis, "odd", edge)
    else:
        grad_x = flip(filtered(flip(upsampled, axis), axis), axis)
    return summed({"x": grad_x}, arguments, of)


def _sections(arguments: dict[str, Any]) -> Any:
    dtype = numpy_dtype(arguments["x"])
    _, (sos,) = decimation.design(np.empty(0, dtype), arguments["q"], arguments["n"], "iir")
    return sos


def _check_decimate(arguments: dict[str, Any]) -> None:
    if arguments["ftype"] != "iir":
        raise NotImplementedError(f"gradients of decimate need ftype='iir'; got {arguments['ftype']!r}")


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    names = ("sos",) if "sos" in arguments else ("b", "a")
    dtypes = [numpy_dtype(arguments[name]) for name in (*names, "x")]
    return [(arguments["x"].shape, result_dtype(*[np.empty(0, dtype) for dtype in dtypes]))]


def _outlines_of_decimate(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x, shape = arguments["x"], [*arguments["x"].shape]
    shape[arguments["axis"]] = -(-shape[arguments["axis"]] // arguments["q"])
    return [(tuple(shape), result_dtype(np.empty(0, numpy_dtype(x)), np.empty(0, np.float32)))]


_OPTIONS = {"axis": ("int", -1), "padtype": ("str?", "odd"), "padlen": ("int?", None)}
RULES = [
    Rule(zero_phase.sosfiltfilt, _compose, ("x",), _OPTIONS, _outlines, constants=("sos",)),
    Rule(zero_phase.filtfilt, _compose, ("x",), _OPTIONS, _outlines, constants=("b", "a")),
    Rule(
        decimation.decimate,
        _compose_decimate,
        ("x",),
        {
            "q": ("int", 1),
            "n": ("int?", None),
            "ftype": ("str", "iir"),
            "axis": ("int", -1),
            "zero_phase": ("bool", True),
        },
        _outlines_of_decimate,
        check=_check_decimate,
    ),
]

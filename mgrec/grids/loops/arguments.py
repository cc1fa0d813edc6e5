"""The door of wavefront loops of any weights and operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.algebra.operators import Operators, as_custom_operators, check_distributes
from ...core.arrays.array_types import cast, check_same_device
from ...core.arrays.chunk import shape_of
from ...core.arrays.validation import as_array, as_axis, as_real, as_scalar
from ...core.contract.problem import Problem, varying
from .recurrence import Loop, WavefrontLoop
from .strategy import check_strategy

_DTYPES = ("int32", "int64", "float32", "float64")


def check_loop(
    local: Any,
    weights: Any,
    operators: Any,
    borders: dict[str, Any],
    floor: Any,
    strategy: Any,
    axes: Any,
    out: Any,
) -> Problem:
    """Arguments of ``wavefront``; `borders`: above, left and corner."""
    pair = as_custom_operators(operators)
    named = {**_as_weights(weights), **borders, "local": local}
    named = {
        name: None if name in borders and value is None else as_array(name, value)
        for name, value in named.items()
    }
    given = {name: value for name, value in named.items() if value is not None}
    check_same_device(list(given.items()), [])
    shape = shape_of(given["local"])
    down, right = _as_axes(axes, shape)
    dtype = _dtype_of(given, floor)
    check_distributes(pair, dtype.kind)
    check_strategy(strategy, pair, dtype.kind, floor is not None)
    lacking = {"above": (down,), "left": (right,), "corner": (down, right)}
    operands = []
    for name, value in named.items():
        if value is None:
            operands.append(np.asarray(_border(name, pair, dtype)))
        else:
            operands.append(_operand(name, value, dtype, shape, lacking.get(name, ())))
    recurrence = WavefrontLoop(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, shape) for operand in operands),
        block_dtypes=(dtype,) * len(operands),
        axes=(down, right),
        loop=Loop(pair, None if floor is None else as_scalar("floor", floor, dtype)[()], strategy),
    )
    return Problem(recurrence, tuple(operands), (), shape, out=out)


def _as_weights(weights: Any) -> dict[str, Any]:
    if not isinstance(weights, (tuple, list)) or len(weights) != 3:
        got = f"{len(weights)}" if isinstance(weights, (tuple, list)) else type(weights).__name__
        raise ValueError(f"weights must be a tuple of three, b0, b1 and b2; got {got}")
    return {f"weights[{k}]": weight for k, weight in enumerate(weights)}


def _as_axes(axes: Any, shape: tuple[Any, ...]) -> tuple[int, int]:
    if len(shape) < 2:
        raise ValueError(f"local must have two axes or more; got shape {shape}")
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise ValueError(f"axes must be two axes; got {axes!r}")
    down, right = (as_axis(axis, shape) for axis in axes)
    if down == right:
        raise ValueError(f"axes must be two different axes; got {axes!r}")
    return down, right


def _dtype_of(given: dict[str, Any], floor: Any) -> np.dtype[Any]:
    values = [getattr(value, "dtype", value) for value in given.values()]
    if floor is not None:
        real = as_real("floor", floor, "a real number or None")
        if np.isnan(real):
            raise ValueError("floor must be a real number or None; got nan")
        values.append(getattr(floor, "dtype", floor if isinstance(floor, int) else real))
    dtype = np.result_type(*values)
    if dtype.name not in _DTYPES:
        raise TypeError(
            f"local, weights and borders must promote to {', '.join(_DTYPES)}; got {dtype}: "
            f"cast them first"
        )
    return dtype


def _border(name: str, pair: Operators, dtype: np.dtype[Any]) -> Any:
    """The identity of ◇; of integers half of it, so that weights can be added to it."""
    if not pair.has_identity:
        raise ValueError(
            f"{name} must be given where ◇ is a function of your own or '*', whose identity is "
            f"not known; got None"
        )
    identity = pair.identity(dtype)
    return identity // dtype.type(2) if dtype.kind == "i" else identity


def _operand(
    name: str, value: Any, dtype: np.dtype[Any], shape: tuple[Any, ...], lacking: tuple[int, ...]
) -> Any:
    """An operand of the loop's dtype; axes that a border lacks get a length of 1."""
    if not hasattr(value, "dtype"):
        return as_scalar(name, value, dtype)
    wanted = tuple(n for k, n in enumerate(shape) if k not in lacking)
    if not _fits(value.shape, wanted):
        raise ValueError(f"{name} must broadcast to {wanted}; got shape {value.shape}")
    value = cast(value, dtype)
    if not lacking or value.ndim == 0:
        return value
    value = value[(None,) * (len(wanted) - value.ndim) + (...,)]
    return value[tuple(None if k in lacking else slice(None) for k in range(len(shape)))]


def _fits(own: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    pairs = zip(reversed(own), reversed(shape), strict=False)
    return len(own) <= len(shape) and all(
        have in (1, want) or np.isnan(have) or np.isnan(want) for have, want in pairs
    )

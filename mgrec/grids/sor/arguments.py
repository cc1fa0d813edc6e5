"""Arguments of successive over-relaxation."""

from __future__ import annotations

from math import isnan, prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, check_same_device, is_lazy
from ...core.arrays.chunk import shape_of
from ...core.arrays.validation import as_array, as_integer, as_real, as_scalar
from ...core.contract.problem import Problem, varying
from .recurrence import Relaxation
from .sweeps import Sweeps


def check_relaxation(
    x: Any, rhs: Any, omega: Any, sweeps: Any, tol: Any, check_every: Any, callback: Any, out: Any
) -> Problem:
    """Arguments of ``sor``."""
    given = {"x": x} if rhs is None else {"x": x, "rhs": rhs}
    named = {name: as_array(name, value) for name, value in given.items()}
    check_same_device(list(named.items()), [])
    shape = shape_of(named["x"])
    if len(shape) < 2:
        raise ValueError(f"x must have two axes or more; got shape {shape}")
    dtype = _dtype_of_points(named)
    loop = _as_loop(omega, sweeps, tol, check_every)
    # Last, so that a result has the chunks of x.
    operands = tuple(_promoted(name, named[name], dtype) for name in reversed(named))
    for rhs in operands[:-1]:
        if not _fits(rhs.shape, shape):
            raise ValueError(f"rhs must broadcast to {shape}, the shape of x; got {rhs.shape}")
    recurrence = Relaxation(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, shape) for operand in operands),
        block_dtypes=(dtype,) * len(operands),
        axes=(len(shape) - 2, len(shape) - 1),
        loop=loop,
        callback=_as_callback(callback, operands, shape),
    )
    return Problem(recurrence, operands, (), shape, out=out)


def _as_callback(callback: Any, operands: Any, shape: tuple[Any, ...]) -> Any:
    if callback is None:
        return None
    if not callable(callback):
        raise TypeError(f"callback must be callable or None; got {callback!r}")
    if any(map(is_lazy, operands)):
        raise TypeError(
            "callback must be None where an operand is a Dask array, which is swept later; "
            "mgrec.dask.progress follows its chunks"
        )
    if prod(shape[:-2]) != 1:
        raise ValueError(f"callback must be None where x is several grids; got shape {shape}")
    return callback


def _dtype_of_points(named: dict[str, Any]) -> np.dtype[Any]:
    dtype = np.result_type(*(getattr(value, "dtype", value) for value in named.values()))
    dtype = np.dtype(np.float64) if dtype.kind in "iu" else dtype
    if dtype.char not in "fd":
        names = " and ".join(named)
        raise TypeError(f"{names} must be of integers, float32 or float64; got {dtype}")
    return dtype


def _promoted(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if hasattr(value, "dtype"):
        return cast(value, dtype)
    return as_scalar(name, value, dtype)


def _fits(own: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    """Whether an array broadcasts to a shape; unknown lengths do."""
    pairs = zip(reversed(own), reversed(shape), strict=False)
    return len(own) <= len(shape) and all(
        have in (1, want) or isnan(have) or isnan(want) for have, want in pairs
    )


def _as_loop(omega: Any, sweeps: Any, tol: Any, check_every: Any) -> Sweeps:
    factor = as_real("omega", omega, "a number between 0 and 2")
    if not 0 < factor < 2:
        raise ValueError(f"omega must be a number between 0 and 2; got {omega!r}")
    counts = {"sweeps": sweeps, "check_every": check_every}
    for name, value in counts.items():
        counts[name] = as_integer(name, value)
        if counts[name] < 1:
            raise ValueError(f"{name} must be 1 or more; got {value!r}")
    if tol is not None and not as_real("tol", tol) > 0:
        raise ValueError(f"tol must be above 0, or None; got {tol!r}")
    return Sweeps(factor, tol=None if tol is None else float(tol), **counts)

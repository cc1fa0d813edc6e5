"""Adjoint of tridiagonal systems."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import computed_dtype, is_lazy
from ..core.arrays.interop import library_of
from ..core.arrays.validation import as_axis, as_flag
from ..core.backends import Backend, backend_of
from ..distributed.groups.ends import first_of_all, gradient_call
from ..solve.adjoint import adjoint_function, along, conj, shifted, times_shifted
from ..solve.rules import broadcast_shapes, common_dtype, rule_of_adjoint
from . import api
from .api import insert_rhs_axis
from .recurrence import kernels_of


@partial(adjoint_function, function="mgrec.solve_tridiagonal", result="x", arrays=("dl", "d", "du", "b"))
def solve_tridiagonal(
    grad: Any,
    x: Any,
    dl: Any,
    d: Any,
    du: Any,
    b: Any,
    *,
    axis: int = -1,
    rhs_axis: int | None = None,
    periodic: bool = False,
    of: Collection[str] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the gradients of ``x = mgrec.solve_tridiagonal(dl, d, du, b)``.

    The gradient of b is the solution λ of the system with the conjugate transposed matrix, whose
    right-hand side is the gradient of x. The gradients of the diagonals are

        d_i: −λ_i·conj(x_i),    dl_i: −λ_i·conj(x_{i-1}),    du_i: −λ_i·conj(x_{i+1})

    and 0 for the entries of `dl` and `du` that the function ignores. Of `b` only the shape and the
    dtype are used.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> b = np.array([1.0, 0.0, 0.0])
    >>> x = mgrec.solve_tridiagonal(-1.0, 2.0, -1.0, b)
    >>> *_, grad_b = mgrec.adjoint.solve_tridiagonal(np.ones(3), x, -1.0, 2.0, -1.0, b)
    >>> grad_b
    array([1.5, 2. , 1.5])
    """
    axis, is_periodic = as_axis(axis, x.shape), as_flag("periodic", periodic)
    options: dict[str, Any] = {"axis": axis, "rhs_axis": rhs_axis, "periodic": is_periodic}
    results = _by_kernels([grad, x, dl, d, du], options)
    if results is not None:
        return results
    axis_of_diagonals, ndim = axis, x.ndim
    if rhs_axis is not None:
        options["rhs_axis"] = rhs_axis = as_axis(rhs_axis, x.shape, "rhs_axis")
        if rhs_axis == axis:
            raise ValueError(f"rhs_axis must be another axis than axis={axis}; got {rhs_axis}")
        axis_of_diagonals, ndim = axis - (rhs_axis < axis), ndim - 1
    below, above = (
        _transposed(diagonal, ndim, axis_of_diagonals, step, is_periodic)
        for diagonal, step in ((du, -1), (dl, 1))
    )
    # -λ: a change of the sign of each gradient would be one more pass over memory.
    adjoint = api.solve_tridiagonal(below, conj(d), above, -1.0 * grad, **options)

    def of_diagonal(step: int) -> Any:
        if step == 0:
            product = adjoint * conj(x)
        else:
            edge = first_of_all(x, axis, step) if is_periodic else None
            product = times_shifted(adjoint, x, axis, step, edge)
        return product if rhs_axis is None else product.sum(axis=rhs_axis)

    return partial(of_diagonal, -1), partial(of_diagonal, 0), partial(of_diagonal, 1), lambda: -adjoint


def _by_kernels(arrays: Sequence[Any], options: dict[str, Any]) -> tuple[Any, Any, Any, Any] | None:
    """Return the gradients of dl, d, du and b by kernels; None if these do not compute them.

    `arrays` are the gradient of x, x, and the diagonals.
    """
    x = arrays[1]
    if library_of(x) is not None or any(map(is_lazy, arrays)) or backend_of(x).is_host:
        return None
    backend, device = backend_of(x), backend_of(x).device_number(x)
    have_one_layout = all(
        type(array) is type(x)
        and (array.shape, array.dtype, backend.device_number(array)) == (x.shape, x.dtype, device)
        and array.flags.c_contiguous
        for array in arrays
    )
    if gradient_call() is not None or not have_one_layout:
        return None
    results: Any = tuple(np.empty_like(x) for _ in range(4))
    addresses, targets = ([*map(backend.address, some)] for some in (arrays, results))
    with backend.device_of([x]):
        is_solved = _differentiate_at(backend, x.shape, x.dtype, device, addresses, targets, options)
    return results if is_solved else None


def _differentiate_at(
    backend: Backend,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    device: int,
    addresses: Sequence[int],
    results: Sequence[int],
    options: dict[str, Any],
) -> bool:
    """Write the gradients of contiguous arrays of one shape; return False if kernels do not."""
    is_along_rows = shape and options["axis"] in (-1, len(shape) - 1) and 0 not in shape
    is_plain = options["rhs_axis"] is None and not options["periodic"] and dtype.char in "fd"
    differentiate = kernels_of(backend).differentiate
    if not (is_along_rows and is_plain) or differentiate is None:
        return False
    return differentiate(shape, dtype, device, addresses, results)


def _transposed(diagonal: Any, ndim: int, axis: int, step: int, is_periodic: bool) -> Any:
    """Return a diagonal of the conjugate transposed matrix from the diagonal opposite to it."""
    axis_of_diagonal = along(diagonal, ndim, axis)
    if axis_of_diagonal is None:
        return conj(diagonal)
    edge = conj(first_of_all(diagonal, axis_of_diagonal, step)) if is_periodic else None
    return shifted(conj(diagonal), axis_of_diagonal, step, edge)


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    operands = {name: arguments[name] for name in ("dl", "d", "du", "b")}
    if arguments["rhs_axis"] is not None:
        operands, _ = insert_rhs_axis(operands, arguments["axis"], arguments["rhs_axis"])
    shape = broadcast_shapes(*(operand.shape for operand in operands.values()))
    dtype = computed_dtype(common_dtype(*operands.values()))
    return [(shape, dtype if dtype.kind in "fc" else np.dtype(np.float64))]


RULES = [
    rule_of_adjoint(
        solve_tridiagonal,
        api.solve_tridiagonal,
        {"axis": ("int", -1), "rhs_axis": ("int?", None), "periodic": ("bool", False)},
        _outlines,
        unread=("b",),
        differentiate_at=_differentiate_at,
    )
]

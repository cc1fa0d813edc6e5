"""The kernels of filters on one backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ..core.backends import Backend
from ..core.contract.kernels import Kernels


@dataclass(frozen=True)
class FilterKernels(Kernels):
    """The phases of filters, and kernels that no other family has.

    `is_directed`: whether `determine` takes chunks whose last step acts first, and results of
      another dtype than that of the chunk. With ``is_bounded=True`` it then rounds outputs of
      columns of real samples, which do not come near overflow, to float32; operands of the chunk
      are consecutive steps of the samples.
    `differentiate_coefficients`: ``(adjoint, signals, axis, coefficients) -> (grad_b, grad_a)``.
      Return the gradients of b and a: sums over all steps n, and all rows, of ``adjoint[n + k]``
      times the conjugate of ``signal[n]``, with the coefficients of the adjoint. The signals are x
      and y; `adjoint` continues with 0.
    `prepare_adjoint`: ``(shape, dtype, device, coefficients, solvers) -> differentiate or None``.
      Prepare the gradients of signals along rows; None for many coefficients, or narrow ones.
      `solvers` are the prepared filters of the gradient of x, and of the adjoint.
      ``differentiate(addresses, results)`` takes the addresses of the gradient of y, of y and of x,
      and those of the gradients of b, a and x, or 0.
    `respond`, ``(taps, signal, start, q, dtype, results)``: write the finite response to a real
      signal (outer, steps, inner) at every q-th step from `start` on, summed in `dtype`.
    """

    is_directed: bool = False
    differentiate_coefficients: Callable[..., tuple[Any, Any]] | None = None
    prepare_adjoint: Callable[..., Callable[..., None] | None] | None = None
    respond: Callable[..., None] | None = None


def kernels_of(backend: Backend) -> FilterKernels:
    """Return the kernels of filters on a backend."""
    return cast(FilterKernels, backend.kernels("filters"))

"""The factors of the tridiagonal matrices of one chunk in host memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays.chunk import canonical_shape
from ..core.backends import CPU, Backend
from ..core.contract.kernels import Summarise
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape, varying
from .errors import SingularSystemError, check_operands, is_all_finite, name_singular_system
from .recurrence import Ends, TridiagonalSystem

MOST_GROWTH = 8
"""Most by which an error of the last unknown of a ring may grow in the others."""
NEARLY_SINGULAR = 1000
"""Rounding errors that a last pivot may consist of."""
MOST_OFF = 64
"""Rounding errors of the largest unknown by which an unknown at an end of a part of systems may be off."""
BLOCK = 1 << 14
"""Unknowns of rings that are completed at once: they stay in the cache."""


@dataclass(frozen=True)
class Factors:
    """The factors of a chunk's matrices.

    `lu` is None if the factors overflow, or if the matrices are singular except for rounding. The
    diagonals are for right-hand sides that are solved without the factors. Factors of periodic
    systems have a `ring`. Those of a part of systems are of its rows without the unknowns of its
    neighbours; `lu` is None unless these rows are diagonally dominant.
    """

    diagonals: Arrays
    shape: Shape  # of the chunk of the broadcast diagonals
    lu: Any = None
    ring: Ring | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object)

    def __sizeof__(self) -> int:
        return sum(part.nbytes for part in (*self.diagonals, *(self.lu or ()), *(self.ring or ())))


class Ring(NamedTuple):
    """How the last unknown of periodic systems changes the others, which are factored without it.

    The factors are those of a matrix whose last row is that of the identity, and in whose other rows
    the last unknown is left out. Their solution y is x, except that x[-1] follows from the last row
    of the system, and x = y - x[-1]·others before it.
    """

    others: np.ndarray  # (outer, steps, inner)
    below: np.ndarray  # dl and du of the last row, and the inverse of its pivot: (outer, inner)
    above: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, dl: np.ndarray, d: np.ndarray, du: np.ndarray) -> tuple[Any, Ring] | tuple[None, None]:
        """Return factors and the ring, and overwrite the diagonals (outer, steps, inner).

        None if matrices are singular except for rounding, or if rounding errors of the last unknown
        would grow in the others.
        """
        from .cpu.factor import factor_matrices, solve_factored

        (outer, _, inner), last = d.shape, tuple(x[:, -1].copy() for x in (dl, d, du))
        of_last = np.zeros_like(d)
        of_last[:, 0] = dl[:, 0]
        of_last[:, -2] += du[:, -2]
        du[:, -2], dl[:, -1], d[:, -1] = 0, 0, 1
        lu, others = factor_matrices(dl, d, du), np.empty_like(d)
        solve_factored(lu, np.arange(outer), np.arange(inner), of_last, others)
        below, above = last[0] * others[:, -2], last[2] * others[:, 0]
        pivot, sizes = last[1] - below - above, sum(map(np.abs, (last[1], below, above)))
        is_regular = np.abs(pivot) > NEARLY_SINGULAR * np.finfo(d.dtype).eps * sizes
        if not (all(map(is_all_finite, lu)) and is_regular.all() and (np.abs(others) <= MOST_GROWTH).all()):
            return None, None
        return lu, cls(others, last[0], last[2], 1 / pivot)

    def close(self, x: np.ndarray, outer: np.ndarray, inner: np.ndarray) -> None:
        """Write the unknowns over those of the factors: see `solve_factored` for the indices."""

        def of_rows(part: np.ndarray, rows: slice) -> np.ndarray:
            part = part if len(part) == 1 else part[outer[rows]]
            return part if part.shape[-1] in (1, len(inner)) else part[..., inner]

        steps = x.shape[1]
        rows = max(1, BLOCK // (steps * len(inner)))
        length = max(1, BLOCK // len(inner)) if rows == 1 else steps
        for first in range(0, len(outer), rows):
            at = slice(first, first + rows)
            systems, (others, *of_last) = x[at], (of_rows(part, at) for part in self)
            below, above, inverse = of_last
            last = (systems[:, -1] - below * systems[:, -2] - above * systems[:, 0]) * inverse
            for start in range(0, steps, length):
                part = slice(start, start + length)
                systems[:, part] -= others[:, part] * last[:, None]
            systems[:, -1] = last


def check_in_host_memory(names: str, backend: Backend) -> None:
    """Raise TypeError if operands are on a GPU, where factors would hardly save time."""
    if not backend.is_host:
        raise TypeError(
            f"{names} must be in host memory, where factors are; got an array on a GPU: call "
            f"solve_tridiagonal, which takes hardly longer there than a solve with factors would"
        )


def factor_chunk(system: Any, inputs: ChunkInputs, shape: Shape) -> Factors:
    """Return the factors of a chunk of whole systems, or of parts of systems; b is a constant."""
    # Copies: a diagonal that is overwritten later has no effect.
    diagonals = tuple(block.copy() for block in inputs.blocks[:3])
    if system.check_finite:
        check_operands(system, inputs, shape)
    without, is_part = Factors(diagonals, shape), shape[system.axis] != system.length
    if 0 in shape or (system.is_periodic and not is_part and shape[system.axis] < 3):
        return without
    from .cpu.factor import factor_matrices

    layout = canonical_shape(shape, system.axis)
    full_diagonals = [
        np.array(np.broadcast_to(diagonal, shape).reshape(layout), order="C") for diagonal in diagonals
    ]
    if is_part:
        return replace(without, lu=_factor_part(full_diagonals, system.ends(inputs, shape)))
    if system.is_periodic:
        with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            return Factors(diagonals, shape, *Ring.of(*full_diagonals))
        return without
    try:
        with name_singular_system(system, inputs.starts, shape), np.errstate(all="ignore"):
            lu = factor_matrices(*full_diagonals)
    except np.linalg.LinAlgError:
        # Rounding makes the last pivot of a nearly singular matrix 0 in one order of the
        # unknowns and not in another, as with Dorr's matrix. The solver's order decides.
        system.determine(CPU, inputs, shape, None)
        return without
    return Factors(diagonals, shape, lu) if all(map(is_all_finite, lu)) else without


def _factor_part(diagonals: list[np.ndarray], ends: Ends) -> Any:
    """Return the factors of rows (outer, steps, inner), and overwrite them; None unless they are dominant."""
    from .cpu.factor import factor_matrices

    dl, d, du = diagonals
    # Entries outside of the matrix have any values.
    dl[:, : int(ends.has_first)] = du[:, du.shape[1] - int(ends.has_last) :] = 0
    with np.errstate(all="ignore"):
        is_dominant = (abs(d) >= abs(dl) + abs(du)).all() and (d != 0).all()
    if not is_dominant:
        return None
    try:
        lu = factor_matrices(dl, d, du)
    except SingularSystemError:
        return None
    return lu if all(map(is_all_finite, lu)) else None


@dataclass(frozen=True, kw_only=True)
class FactoredSystem(TridiagonalSystem):
    """Tridiagonal systems of which a chunk's operands are b and the factors of its rows.

    The equations of a chunk in its ends are those of `system`, and known unknowns of its neighbours
    change its first and its last b.
    """

    system: TridiagonalSystem

    @classmethod
    def of(cls, system: TridiagonalSystem, b: Any, factors: Any, shape: Shape) -> FactoredSystem:
        """Return the system for b and factors that broadcast to a shape."""
        attributes = {field.name: getattr(system, field.name) for field in fields(system)}
        attributes["varying"] = varying(b.shape, shape), varying(factors.shape, shape)
        attributes["block_dtypes"] = (b.dtype,)
        return cls(**attributes, system=system)

    def check(self, inputs: ChunkInputs) -> None:
        super().check(replace(inputs, blocks=inputs.blocks[:1]))

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        check_in_host_memory("b", backend)
        return self.system.precompute(backend, _with_matrix(inputs), shape)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, None]:
        b, factors = inputs.blocks
        if factors.lu is not None:
            rhs = np.array(np.broadcast_to(b, shape), order="C")
            ends, (dl, _, du) = self.ends(inputs, shape), factors.diagonals
            with np.errstate(all="ignore"):
                if not ends.has_first:
                    self._subtract_known(rhs, dl, carry_in, 0)
                if not ends.has_last:
                    self._subtract_known(rhs, du, carry_in, -1)
            x = solve_chunk(factors, self.system, shape, rhs, out=out)
            if x is not None and self._meets_neighbours(x, ends, carry_in):
                return (x,), None
        return self.system.determine(backend, _with_matrix(inputs), shape, carry_in, out)

    def _meets_neighbours(self, x: np.ndarray, ends: Ends, carry_in: np.ndarray) -> bool:
        """Return whether the unknowns at the ends are those that neighbours take for them.

        They are not where the rows of the chunk are nearly singular, as with Dorr's matrix.
        """
        is_inner = np.array([not ends.has_first, not ends.has_last])
        first_and_last = np.moveaxis(x, self.axis, -1)[..., [0, -1]].reshape(*carry_in.shape[:-1], 2)
        with np.errstate(all="ignore"):
            off = abs(first_and_last - carry_in[..., 1:3])[..., is_inner].max(-1, initial=0.0)
            if (off <= MOST_OFF * np.finfo(x.dtype).eps * abs(carry_in).max(-1)).all():
                return True
            sizes = abs(x).max(self.axis).reshape(off.shape)
            return bool((off <= MOST_OFF * np.finfo(x.dtype).eps * sizes).all())

    def _subtract_known(self, rhs: np.ndarray, diagonal: np.ndarray, carry_in: np.ndarray, end: int) -> None:
        """Subtract from the first or the last b what the known unknown beyond it contributes."""
        row = np.moveaxis(rhs, self.axis, 0)[end, ...]
        coefficients = np.moveaxis(np.broadcast_to(diagonal, rhs.shape), self.axis, 0)[end, ...]
        row -= coefficients * carry_in[..., end].reshape(row.shape)


def _with_matrix(inputs: ChunkInputs) -> ChunkInputs:
    """Return the inputs of the system, from those of a factored one."""
    b, factors = inputs.blocks
    return replace(inputs, blocks=(*factors.diagonals, b))


def solve_chunk(
    factors: Factors, system: Any, shape: Shape, b: np.ndarray, threads: int = 1, out: Arrays = ()
) -> Any:
    """Return x of this shape, or None if the chunk has to be solved without the factors."""
    from .cpu.factor import MAX_THREADS, solve_factored

    axis, rhs_axis = system.axis, system.rhs_axis
    layout = canonical_shape(shape, axis)
    # Factors are faster on up to MAX_THREADS a system.
    if factors.lu is None or threads > MAX_THREADS * layout[0] * layout[2]:
        return None
    # The shape of the matrices, with as many axes as that of x.
    factor_shape = (1,) * (len(shape) - len(factors.shape) - (rhs_axis is not None)) + factors.shape
    if rhs_axis is not None:
        factor_shape = (*factor_shape[:rhs_axis], 1, *factor_shape[rhs_axis:])
    x = out[0] if out else np.empty(shape, b.dtype)
    outer = _broadcast_index(factor_shape[:axis], shape[:axis])
    inner = _broadcast_index(factor_shape[axis + 1 :], shape[axis + 1 :])
    rhs = np.ascontiguousarray(b if b.shape == shape else np.broadcast_to(b, shape))
    with np.errstate(all="ignore"):
        arrays = rhs.reshape(layout), x.reshape(layout)
        solve_factored(factors.lu, outer, inner, *arrays, threads)
        if factors.ring is not None:
            factors.ring.close(arrays[1], outer, inner)
    # The solver handles systems that contain nan or inf, or overflow.
    return x if is_all_finite(x) else None


def _broadcast_index(factor_shape: Shape, shape: Shape) -> np.ndarray:
    """Return, for each element of a shape, the flat index into an array that broadcasts to it."""
    index = np.arange(prod(factor_shape), dtype=np.int64)
    if factor_shape == shape:
        return index
    return np.ascontiguousarray(np.broadcast_to(index.reshape(factor_shape), shape)).reshape(-1)

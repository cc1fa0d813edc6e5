# Types of the public names for type checkers and editors. Each function has overloads for arguments
# that return NumPy arrays and for arrays of another type. A test compares them with the functions.
# fmt: off

from collections.abc import Callable, Hashable
from typing import Any, Literal, TypeVar, overload

from numpy.typing import NDArray

from . import adjoint as adjoint
from . import collective as collective
from . import dask as dask
from . import hmm as hmm
from . import maps as maps
from . import ndimage as ndimage
from . import signal as signal
from . import statespace as statespace
from . import tuning as tuning
from . import types as types
from .core.algebra.coefficient import Coefficient as Coefficient
from .core.algebra.transfer_map import TransferMap as TransferMap
from .core.arrays.resets import starts as starts
from .distributed.groups.group import Group
from .distributed.plan.plans import Plan
from .grids.alignment.results import Alignment, TracedAlignment
from .grids.alignment.sequences import Sequences as Sequences
from .scans.laws import check_laws as check_laws
from .scans.matrix.maps import MatrixMap
from .tridiagonal.factor_api import TridiagonalFactor
from .types import (
    GpuMethod,
    Kind,
    Memory,
    Mode,
    Numbers,
    Operand,
    Operator,
    Strategy,
    TridiagonalMethod,
    WeightedOperators,
)

__version__: str

ArrayLike = Numbers | Kind
A = TypeVar("A", bound=Kind)

@overload
def linear_recurrence(
    s: Operand, t: Operand, initial: Numbers | None = None, *, axis: int = -1, reverse: bool = False,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", method: GpuMethod = "auto",
    out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def linear_recurrence(
    s: A, t: Operand, initial: ArrayLike | None = None, *, axis: int | str = -1, reverse: bool = False,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", method: GpuMethod = "auto",
    out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def linear_recurrence(
    s: Operand | Kind, t: A, initial: ArrayLike | None = None, *, axis: int | str = -1, reverse: bool = False,
    reset: Any = None, lengths: Any = None, memory: Memory = "stream", method: GpuMethod = "auto",
    out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def rational_recurrence(
    a: Operand, b: Operand, c: Operand, d: Operand, initial: Numbers, *, axis: int = -1,
    reverse: bool = False, reset: Any = None, lengths: Any = None, memory: Memory = "stream",
    method: GpuMethod = "auto", out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def rational_recurrence(
    a: Operand | A, b: Operand | A, c: Operand | A, d: Operand | A, initial: ArrayLike, *,
    axis: int | str = -1, reverse: bool = False, reset: Any = None, lengths: Any = None,
    memory: Memory = "stream", method: GpuMethod = "auto", out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
@overload
def scan(
    transfer_map: TransferMap, *operands: Operand, initial: tuple[Numbers, ...], axis: int = -1,
    reverse: bool = False, reset: Any = None, lengths: Any = None, memory: Memory = "stream",
    method: GpuMethod = "auto", out: tuple[NDArray[Any], ...] | None = None, group: Group | None = None
) -> tuple[NDArray[Any], ...]: ...
@overload
def scan(
    transfer_map: TransferMap | MatrixMap, *operands: Operand, initial: Numbers, axis: int = -1,
    reverse: bool = False, reset: Any = None, lengths: Any = None, memory: Memory = "stream",
    method: GpuMethod = "auto", out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def scan(
    transfer_map: TransferMap, *operands: Operand | A, initial: tuple[ArrayLike, ...], axis: int | str = -1,
    reverse: bool = False, reset: Any = None, lengths: Any = None, memory: Memory = "stream",
    method: GpuMethod = "auto", out: tuple[A, ...] | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> tuple[A, ...]: ...
@overload
def scan(
    transfer_map: TransferMap | MatrixMap, *operands: Operand | A, initial: ArrayLike, axis: int | str = -1,
    reverse: bool = False, reset: Any = None, lengths: Any = None, memory: Memory = "stream",
    method: GpuMethod = "auto", out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def weighted_scan(
    x: Numbers, weights: Numbers, *, operators: WeightedOperators = ("+", "*"), axis: int = -1,
    inclusive: bool = False, out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def weighted_scan(
    x: Numbers, weights: A, *, operators: WeightedOperators = ("+", "*"), axis: int | str = -1,
    inclusive: bool = False, out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def weighted_scan(
    x: A, weights: ArrayLike, *, operators: WeightedOperators = ("+", "*"), axis: int | str = -1,
    inclusive: bool = False, out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def solve_tridiagonal(
    dl: Numbers, d: Numbers, du: Numbers, b: Numbers, *, axis: int = -1, rhs_axis: int | None = None,
    memory: Memory = "stream", method: TridiagonalMethod = "auto", periodic: bool = False,
    check_finite: bool = True, out: NDArray[Any] | None = None, group: Group | None = None
) -> NDArray[Any]: ...
@overload
def solve_tridiagonal(
    dl: Numbers | A, d: Numbers | A, du: Numbers | A, b: Numbers, *, axis: int | str = -1,
    rhs_axis: int | None = None, memory: Memory = "stream", method: TridiagonalMethod = "auto",
    periodic: bool = False, check_finite: bool = True, out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
@overload
def solve_tridiagonal(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: A, *, axis: int | str = -1, rhs_axis: int | None = None,
    memory: Memory = "stream", method: TridiagonalMethod = "auto", periodic: bool = False,
    check_finite: bool = True, out: A | None = None, dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int], ab: Numbers, b: Numbers, *, axis: int = -1, memory: Memory = "stream",
    periodic: bool = False, check_finite: bool = True, out: NDArray[Any] | None = None,
    group: Group | None = None
) -> NDArray[Any]: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int], ab: Numbers | A, b: Numbers, *, axis: int | str = -1, memory: Memory = "stream",
    periodic: bool = False, check_finite: bool = True, out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
@overload
def solve_banded(
    l_and_u: tuple[int, int], ab: ArrayLike, b: A, *, axis: int | str = -1, memory: Memory = "stream",
    periodic: bool = False, check_finite: bool = True, out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
@overload
def solve_block_tridiagonal(
    dl: Numbers, d: Numbers, du: Numbers, b: Numbers, *, axis: int = -1, memory: Memory = "stream",
    periodic: bool = False, check_finite: bool = True, out: NDArray[Any] | None = None,
    group: Group | None = None
) -> NDArray[Any]: ...
@overload
def solve_block_tridiagonal(
    dl: Numbers | A, d: Numbers | A, du: Numbers | A, b: Numbers, *, axis: int | str = -1,
    memory: Memory = "stream", periodic: bool = False, check_finite: bool = True, out: A | None = None,
    dim: Hashable = ..., group: Group | None = None
) -> A: ...
@overload
def solve_block_tridiagonal(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: A, *, axis: int | str = -1, memory: Memory = "stream",
    periodic: bool = False, check_finite: bool = True, out: A | None = None, dim: Hashable = ...,
    group: Group | None = None
) -> A: ...
def factor_tridiagonal(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, *, axis: int | str = -1, periodic: bool = False,
    check_finite: bool = True, dim: Hashable = ...
) -> TridiagonalFactor: ...
@overload
def summed_area_table(
    x: Numbers, axes: tuple[int, ...] = (-2, -1), *, dtype: Any = None, out: NDArray[Any] | None = None,
    group: Group | None = None
) -> NDArray[Any]: ...
@overload
def summed_area_table(
    x: A, axes: tuple[int, ...] = (-2, -1), *, dtype: Any = None, out: A | None = None,
    group: Group | None = None
) -> A: ...
@overload
def wavefront(
    local: Numbers, *, weights: tuple[Numbers, Numbers, Numbers],
    operators: tuple[Operator, Operator] = ("+", "*"), above: Numbers | None = None,
    left: Numbers | None = None, corner: Numbers | None = None, floor: float | None = None,
    strategy: Strategy = "hybrid", axes: tuple[int, int] = (-2, -1), out: NDArray[Any] | None = None,
    group: Group | None = None
) -> NDArray[Any]: ...
@overload
def wavefront(
    local: A, *, weights: tuple[ArrayLike, ArrayLike, ArrayLike],
    operators: tuple[Operator, Operator] = ("+", "*"), above: ArrayLike | None = None,
    left: ArrayLike | None = None, corner: ArrayLike | None = None, floor: float | None = None,
    strategy: Strategy = "hybrid", axes: tuple[int, int] = (-2, -1), out: A | None = None,
    group: Group | None = None
) -> A: ...
@overload
def sor(
    x: Numbers, rhs: Numbers | None = None, *, omega: float = 1.0, sweeps: int = 1, tol: float | None = None,
    check_every: int = 10, callback: Callable[[int, float], None] | None = None,
    out: NDArray[Any] | None = None
) -> NDArray[Any]: ...
@overload
def sor(
    x: A, rhs: ArrayLike | None = None, *, omega: float = 1.0, sweeps: int = 1, tol: float | None = None,
    check_every: int = 10, callback: Callable[[int, float], None] | None = None, out: A | None = None
) -> A: ...
@overload
def smith_waterman(
    query: Sequences | ArrayLike, target: Sequences | ArrayLike, *, match: float | None = None,
    mismatch: float | None = None, gap: float, matrix: Any = None, extend: float | None = None,
    mode: Mode = "local", output: Literal["score"] = "score", group: Group | None = None
) -> Alignment: ...
@overload
def smith_waterman(
    query: ArrayLike, target: ArrayLike, *, match: float | None = None, mismatch: float | None = None,
    gap: float, matrix: Any = None, extend: float | None = None, mode: Mode = "local",
    output: Literal["matrix"], group: Group | None = None
) -> Any: ...
@overload
def smith_waterman(
    query: Sequences | ArrayLike, target: Sequences | ArrayLike, *, match: float | None = None,
    mismatch: float | None = None, gap: float, matrix: Any = None, extend: float | None = None,
    mode: Mode = "local", output: Literal["alignment"], group: Group | None = None
) -> TracedAlignment | list[TracedAlignment]: ...
def plan(
    recurrence: Callable[..., Any], *operands: Any, client: Any = None, timeout: float = 10.0,
    in_flight: int | None = None, **options: Any
) -> Plan: ...

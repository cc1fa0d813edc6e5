"""The twenty tridiagonal matrices on which solvers are compared, and LAPACK's solutions.

Chosen by I. E. Venetis, A. Kouris, A. Sobczyk, E. Gallopoulos, A. H. Sameh, "A direct tridiagonal
solver based on Givens rotations for GPU architectures", Parallel Computing 49, 2015, after L.-W.
Chang et al., "A scalable, numerically stable, high-performance tridiagonal solver using GPUs",
SC'12; listed as here by C. Klein, R. Strzodka, "Tridiagonal GPU solver with scaled partial
pivoting at maximum bandwidth", ICPP 2021, Table 1. There the order is 512 and the unknowns are
drawn from N(3, 1).
"""

from functools import cache

import dask.array as da
import numpy as np
import pytest
from scipy.linalg import lapack

import mgrec

ORDER, CONDITION = 512, 1e15
GTSV = {"f": lapack.sgtsv, "d": lapack.dgtsv, "F": lapack.cgtsv, "D": lapack.zgtsv}
# Right-hand sides, whose errors scatter by factors of 100 where the condition number is 1e15.
SIDES = 15
NAMES = (
    "random",
    "diagonal 1e8",
    "lesp",
    "random, one dl times 1e-50",
    "random, half of dl and du 0",
    "diagonal 64",
    "inverse kms",
    "randsvd mode 2",
    "randsvd mode 3",
    "randsvd mode 1",
    "randsvd mode 4",
    "random, dl times 1e-50",
    "dorr",
    "random, diagonal 1e-8",
    "random, diagonal 0",
    "1, 1e-8, 1",
    "1, 1e8, 1",
    "-1, 4, -1",
    "-1, 4, 1",
    "-1, 4, random",
)
"""In the order of the table."""


@cache
def matrix(name: str, n: int = ORDER) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(dl, d, du) of order `n`, float64; dl[0] and du[-1] stand for nothing, and are 0."""
    generator = np.random.default_rng(NAMES.index(name))
    dl, d, du = diagonals(name, n, generator)
    diagonals_of_n = [np.broadcast_to(part, n).astype(float) for part in (dl, d, du)]
    diagonals_of_n[0][0] = diagonals_of_n[2][-1] = 0
    return tuple(diagonals_of_n)


def diagonals(name, n, generator):
    a, b, c = generator.uniform(-1, 1, (3, n))
    middle = np.where(np.arange(n) == n // 2, 1e-50, 1)
    match name:
        case "random, one dl times 1e-50":
            return a * middle, b, c
        case "random, half of dl and du 0":
            kept = generator.random((2, n)) < 0.5
            return a * kept[0], b, c * kept[1]
        case "random, dl times 1e-50":
            return a * 1e-50, b, c
        case "lesp":
            return 1 / np.arange(1.0, n + 1), -2 * np.arange(2.0, n + 2) - 1, np.arange(2.0, n + 2)
        case "inverse kms":
            return inverse_kms(n, 0.5)
        case "dorr":
            return dorr(n, 1e-4)
    if name.startswith("randsvd"):
        return randsvd(n, int(name[-1]), generator)
    return {
        "random": (a, b, c),
        "diagonal 1e8": (a, 1e8, c),
        "diagonal 64": (a, 64, c),
        "random, diagonal 1e-8": (a, 1e-8, c),
        "random, diagonal 0": (a, 0, c),
        "1, 1e-8, 1": (1, 1e-8, 1),
        "1, 1e8, 1": (1, 1e8, 1),
        "-1, 4, -1": (-1, 4, -1),
        "-1, 4, 1": (-1, 4, 1),
        "-1, 4, random": (-1, 4, c),
    }[name]


def inverse_kms(n, rho):
    """The inverse of the Kac-Murdock-Szegő Toeplitz matrix rho**abs(i - j)."""
    d = np.full(n, 1 + rho**2)
    d[[0, -1]] = 1
    return -rho / (1 - rho**2), d / (1 - rho**2), -rho / (1 - rho**2)


def dorr(n, theta):
    """Row diagonally dominant and ill-conditioned (F. W. Dorr, Math. Comp. 25, 1971)."""
    h, i = 1 / (n + 1), np.arange(1, n + 1)
    upper = i <= (n + 1) // 2
    shift = (0.5 - i * h) / h
    dl = -theta / h**2 + np.where(upper, 0, shift)
    du = -theta / h**2 - np.where(upper, shift, 0)
    return dl, -(dl + du), du


def randsvd(n, mode, generator):
    """Random with given singular values, as in Higham's gallery('randsvd', n, 1e15, mode, 1, 1).

    Modes: 1 one large singular value, 2 one small, 3 geometric, 4 arithmetic sequence.
    """
    steps = np.arange(n) / (n - 1)
    singular_values = {
        1: np.where(steps == 0, 1, 1 / CONDITION),
        2: np.where(steps == 1, 1 / CONDITION, 1),
        3: CONDITION**-steps,
        4: 1 - steps * (1 - 1 / CONDITION),
    }[mode]
    # Random orthogonal factors (G. W. Stewart, "The efficient generation of random orthogonal
    # matrices", 1980), then the band.
    full = np.diag(singular_values)
    for k in range(2, n + 1):
        reflect(full[-k:], generator.standard_normal(k))
        reflect(full[:, -k:].T, generator.standard_normal(k))
    for j in range(n - 2):
        reflect(full[j + 1 :, j:], full[j + 1 :, j])
        reflect(full[j:, j + 1 :].T, full[j, j + 1 :])
    return np.r_[0, np.diag(full, -1)], np.diag(full), np.r_[np.diag(full, 1), 0]


def reflect(part, x):
    """Apply to the rows of `part` the Householder reflection that leaves only the head of x."""
    v = x / np.linalg.norm(x)
    v[0] += np.copysign(1, v[0])
    # By einsum: BLAS waits for its other threads each time, 10 s in all on a busy machine.
    if part.flags.c_contiguous or part.strides[0] > part.strides[1]:
        part -= np.outer(v * (2 / (v @ v)), np.einsum("i,ij", v, part))
    else:
        part.T[:] -= np.outer(np.einsum("i,ij", v, part), v * (2 / (v @ v)))


RINGS = (
    "dominant",
    "first diagonal 0",
    "last diagonal 0",
    "last pivot 0",
    "bidiagonal, last diagonal 0",
    "bidiagonal, last diagonal 1e-10",
)


def ring(kind, n):
    """(dl, d, du, b) of a periodic system of two unknowns or more, and its dense matrix.

    Its condition number is below 50 for up to 33 unknowns. Most are nearly singular without their
    corners. What the kind calls 0 is as small as a rounding error.
    """
    generator = np.random.default_rng(n)
    dl, d, du = generator.choice([-1.0, 1.0], (3, n))
    if kind.startswith("bidiagonal"):
        du[:] = 0
    else:
        dl, d, du = 0.3 * dl, 2 * d, 0.3 * du
        dl[0], du[-1] = 0.9, -1.1
    match kind:
        case "first diagonal 0":
            d[0] = 2e-15
        case "last diagonal 0" | "bidiagonal, last diagonal 0":
            d[-1] = 2e-15
        case "last pivot 0":
            pivot = d[0]
            for k in range(1, n - 1):
                pivot = d[k] - dl[k] * du[k - 1] / pivot
            d[-1] = dl[-1] * du[-2] / pivot * (1 + 1e-13)
        case "bidiagonal, last diagonal 1e-10":
            d[-1] = 1e-10
    return [dl, d, du, generator.normal(size=n)], dense_ring(dl, d, du)


def dense_ring(dl, d, du):
    """The matrix of a periodic system; coefficients of one unknown add up."""
    n, k = len(d), np.arange(len(d))
    full = np.zeros((n, n), np.result_type(dl, d, du))
    for part, move in ((dl, -1), (d, 0), (du, 1)):
        np.add.at(full, (k, (k + move) % n), part)
    return full


def product(dl, d, du, x):
    """The right-hand side for unknowns x (n,), in extended precision before it is rounded."""
    wide = np.clongdouble if np.iscomplexobj(x) or np.iscomplexobj(d) else np.longdouble
    dl, d, du, x = (np.asarray(part, wide) for part in (dl, d, du, x))
    b = d * x
    b[1:] += dl[1:] * x[:-1]
    b[:-1] += du[:-1] * x[1:]
    return b


def lines(*arrays):
    """Arrays (steps,) or (systems, steps) as operands."""
    return [np.ascontiguousarray(np.atleast_2d(array)[:, :, None]) for array in arrays]


def gtsv(operands):
    """LAPACK's solutions, system by system; its wrappers want three rows or more."""
    dl, d, du, b = np.broadcast_arrays(*operands)
    result = np.empty_like(b)
    for outer, inner in np.ndindex(b.shape[0], b.shape[2]):
        lower, middle, upper, side = (part[outer, :, inner] for part in (dl, d, du, b))
        if b.shape[1] > 2:
            *_, found, info = GTSV[b.dtype.char](lower[1:], middle, upper[:-1], side)
            assert info == 0
        else:
            full = np.diag(middle) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
            found = np.linalg.solve(full, side)
        result[outer, :, inner] = found
    return result


def with_solutions(dl, d, du, sides=SIDES):
    """The systems of a matrix whose unknowns are drawn from N(3, 1), and these."""
    x = np.random.default_rng(7).normal(3, 1, (sides, len(d)))
    x = x + 1j * x[::-1] if d.dtype.kind == "c" else x
    b = np.array([product(dl, d, du, row) for row in x]).astype(d.dtype)
    return lines(dl, d, du, b), x


def error(result, x):
    """The median of the relative errors of several systems."""
    found = np.asarray(result)[:, :, 0]
    return np.median(np.linalg.norm(found - x, axis=1) / np.linalg.norm(x, axis=1))


def dominant(shape, axis=-1, dtype="d", seed=0):
    """Operands of random systems, diagonally dominant by rows, along an axis of the result."""
    generator = np.random.default_rng(seed)
    parts = generator.uniform(-1, 1, (4, *shape))
    if np.dtype(dtype).kind == "c":
        parts = parts + 1j * generator.uniform(-1, 1, parts.shape)
    parts[1] += 3 * parts[1] / abs(parts[1])
    return [np.ascontiguousarray(np.moveaxis(part, -1, axis)).astype(dtype) for part in parts]


def in_chunks(operands, chunks):
    """Operands as Dask arrays; as they are without chunks."""
    return [da.from_array(part, chunks=chunks) for part in operands] if chunks else operands


def places(solver, *counts):
    """Parameters for `solver(count)`, in so many chunks; 7 of them in extended tests."""
    return [
        pytest.param(solver(count), id=f"{count} chunks", marks=pytest.mark.extended if count == 7 else ())
        for count in counts
    ]


def chunked(count):
    """Solve in so many chunks along n; 0 stands for NumPy."""

    def solve(*operands, axis=-1, **options):
        if not count:
            return mgrec.solve_tridiagonal(*operands, axis=axis, **options)
        *diagonals, b = operands
        ends = np.linspace(0, b.shape[axis], count + 1).astype(int)
        chunks = list(b.shape)
        chunks[axis] = tuple(np.diff(ends))
        lazy = mgrec.solve_tridiagonal(
            *diagonals, da.from_array(b, chunks=tuple(chunks)), axis=axis, **options
        )
        assert lazy.chunks[axis] == tuple(np.diff(ends))
        return lazy.compute(scheduler="sync")

    return solve

"""Random banded and block tridiagonal systems, dense solutions, and their errors."""

from functools import partial

import numpy as np
import pytest

import mgrec

WIDTHS = [(0, 0), (1, 0), (0, 2), (1, 1), (2, 2), (4, 1), (1, 3), (4, 4)]
TOLERANCE = {"f": 1e-5, "F": 1e-5, "d": 2e-14, "D": 2e-14}
RANDOM = np.random.default_rng(7)
STATE = RANDOM.bit_generator.state
NAMES = ["bands", "blocks", "periodic bands", "periodic blocks"]


@pytest.fixture(autouse=True)
def seeded():
    """Draw the same numbers in each test of a module that imports this fixture."""
    RANDOM.bit_generator.state = STATE


def draw(*shape, dtype="d"):
    numbers = RANDOM.uniform(-1, 1, shape)
    if dtype in "FD":
        numbers = numbers + 1j * RANDOM.uniform(-1, 1, shape)
    return numbers.astype(dtype)


def bands(lower, upper, *shape, dtype="d"):
    """Random diagonals (..., l + u + 1, n), the main one dominant."""
    *rows, n = shape
    ab = draw(*rows, lower + upper + 1, n, dtype=dtype)
    ab[..., upper, :] += (1.5 if dtype in "FD" else 1) * (lower + upper + 1)
    return ab


def block_system(n, k, *rows, dtype="d", dominance=3.0):
    """Random dl, d and du (..., n, k, k), the diagonal dominant, and b (..., n, k)."""
    dl, d, du = (draw(*rows, n, k, k, dtype=dtype) for _ in range(3))
    d += (dominance * k * np.eye(k)).astype(dtype)
    return dl, d, du, draw(*rows, n, k, dtype=dtype)


def solver(name, widths=(2, 1)):
    """A function of matrices and right-hand sides, and the axes of each after that of the unknowns."""
    periodic = "periodic" in name
    if "bands" in name:
        return partial(mgrec.solve_banded, widths, periodic=periodic), [0, 0]
    return partial(mgrec.solve_block_tridiagonal, periodic=periodic), [2, 2, 2, 1]


def system(name, n, *rows, dtype="d", widths=(2, 1), k=3):
    """The function and the axes of :func:`solver`, and operands between them."""
    solve, trailing = solver(name, widths)
    if "bands" in name:
        return solve, [bands(*widths, *rows, n, dtype=dtype), draw(*rows, n, dtype=dtype)], trailing
    return solve, [*block_system(n, k, *rows, dtype=dtype)], trailing


def dense_bands(widths, ab, periodic=False):
    """The matrices (..., n, n); coefficients of one unknown of a ring add up."""
    n = ab.shape[-1]
    full = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    columns = np.arange(n)
    for r in range(sum(widths) + 1):
        rows = columns + r - widths[1]
        is_inside = periodic | ((rows >= 0) & (rows < n))
        full[..., rows[is_inside] % n, columns[is_inside]] += ab[..., r, is_inside]
    return full


def dense_blocks(dl, d, du, periodic=False):
    """The matrices (..., n·k, n·k); coefficients of one unknown of a ring add up."""
    n, k = d.shape[-3:-1]
    full = np.zeros((*d.shape[:-3], n, n, k, k), d.dtype)
    rows = np.arange(n)
    for step, blocks in ((-1, dl), (0, d), (1, du)):
        columns = rows + step
        is_inside = periodic | ((columns >= 0) & (columns < n))
        full[..., rows[is_inside], columns[is_inside] % n, :, :] += blocks[..., is_inside, :, :]
    return full.swapaxes(-3, -2).reshape(*d.shape[:-3], n * k, n * k)


def dense(solve, *matrices):
    """The dense matrices of a function of :func:`system` and its operands but the last one."""
    make = dense_blocks if len(matrices) == 3 else partial(dense_bands, *solve.args)
    return make(*matrices, periodic=solve.keywords["periodic"])


def dense_solve(full, b, trailing):
    """The unknowns for right-hand sides with so many axes after that of the unknowns."""
    flat = b.reshape(*b.shape[: b.ndim - 1 - trailing], -1, 1)
    found = np.linalg.solve(full, flat)
    return found.reshape(*found.shape[:-2], *b.shape[b.ndim - 1 - trailing :])


def error(x, wanted):
    return abs(x - wanted).max() / abs(wanted).max()

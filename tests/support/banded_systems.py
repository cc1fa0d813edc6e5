"""Random banded and block tridiagonal systems, and the errors of their solutions."""

import numpy as np
import pytest

WIDTHS = [(0, 0), (1, 0), (0, 2), (1, 1), (2, 2), (4, 1), (1, 3), (4, 4)]
TOLERANCE = {"f": 1e-5, "F": 1e-5, "d": 2e-14, "D": 2e-14}
RANDOM = np.random.default_rng(7)
STATE = RANDOM.bit_generator.state


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


def error(x, wanted):
    return abs(x - wanted).max() / abs(wanted).max()

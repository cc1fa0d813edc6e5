"""A chunk's operands as the kernels take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cpu.compilation import writable
from .kernels import Sources
from .tuples import Steps


@dataclass(frozen=True)
class Flat:
    """Operands side by side, those of coefficients included, and which of them belong together.

    Attributes
    ----------
    operands : tuple
        Along rows: 2-d (varying) or 1-d (constant along a row) arrays; along columns: 3-d
        (varying) or 2-d (the same in all columns) arrays; ``Steps`` for an index.
    sources : Sources
    """

    operands: tuple[Any, ...]
    sources: Sources


def flatten(chunk: Chunk) -> Flat:
    """The operands of a chunk for kernels along rows (inner = 1) or columns."""
    return _flatten(chunk, _row_kind if chunk.shape[2] == 1 else _column_kind)


def flatten_columns(chunk: Chunk) -> Flat:
    """The operands of a chunk for kernels along columns, also where there is one."""
    return _flatten(chunk, _column_kind)


def _flatten(chunk: Chunk, kind: Callable[[np.ndarray, Chunk], np.ndarray]) -> Flat:
    operands: list[Any] = []
    sources: list[tuple[Any, int]] = []
    for operand in chunk.operands:
        if isinstance(operand, CoefficientOperand):
            further = [kind(array, chunk) for array in operand.operands]
            operands += [Steps(operand.first), *further]
            sources.append((operand.function, 1 + len(further)))
        else:
            operands.append(kind(operand, chunk))
            sources.append((None, 1))
    return Flat(tuple(operands), tuple(sources))


def _row_kind(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    array = writable(array)
    if array.shape[1] == chunk.steps:
        return array[:, :, 0]
    return array[:, 0, 0]


def _column_kind(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    array = writable(array)
    return array[:, :, 0] if array.shape[2] == 1 else array

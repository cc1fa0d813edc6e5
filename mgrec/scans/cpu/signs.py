"""The signs of a chunk's coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engines.cpu.compilation import compile_kernel
from ...engines.cpu.simd.checks import sign_mask, zero_mask
from ...engines.cpu.simd.lanes import load_64_bytes
from ..prefix import Signs

WIDE = 64  # bytes
# Coefficients that are looked at before all are.
FEW = 1024


def signs_of(s: np.ndarray, steps: int) -> Signs | None:
    """The signs of finite coefficients (outer, steps or 1, inner); None where all are positive."""
    if s[:1, :FEW].min() > 0 and s.min() > 0:
        return None
    flat = s.reshape(-1)
    whole = flat.size - flat.size % (WIDE // s.itemsize)
    negative = np.empty(-(-flat.size // 8), np.uint8)
    words = negative[: whole // 8].view(f"u{WIDE // s.itemsize // 8}")
    has_zero = bool(_pack(flat[:whole], words)) or not flat[whole:].all()
    negative[whole // 8 :] = _packed(np.signbit(flat[whole:]))
    is_odd = _are_odd(s.view(f"u{s.itemsize}"))
    product = np.where(is_odd & (s.shape[1] == steps or steps % 2 == 1), -1.0, 1.0)
    if not has_zero:
        return Signs(negative, None, product, s.shape)
    product[(s == 0).any(axis=1)] = 0
    return Signs(negative, _packed(flat == 0), product, s.shape)


def _packed(flags: np.ndarray) -> np.ndarray:
    return np.packbits(flags, bitorder="little")


def _pack_signs(s: Any, words: Any) -> bool:
    """Pack whole registers; whether a number is 0."""
    wide, found = 64 // s.itemsize, 0
    for k in range(words.size):
        lanes = load_64_bytes(s, k * wide)
        words[k] = sign_mask(lanes)
        found |= zero_mask(lanes)
    return found != 0


def _are_odd(bits: np.ndarray) -> np.ndarray:
    """Whether an odd number of each row's coefficients is negative."""
    outer, _, inner = bits.shape
    if inner == 1:
        united = np.bitwise_xor.reduce(bits[:, :, 0], axis=1)[:, None]
    else:
        united = np.zeros((outer, inner), bits.dtype)
        _unite(bits, united)
    return united >> (8 * bits.itemsize - 1) != 0


def _unite_lines(bits: Any, united: Any) -> None:
    # numpy.bitwise_xor.reduce takes seven times as long over narrow lines.
    for row in range(bits.shape[0]):
        own = united[row]
        for step in range(bits.shape[1]):
            line = bits[row, step]
            for column in range(own.size):
                own[column] ^= line[column]


_pack, _unite = compile_kernel(_pack_signs), compile_kernel(_unite_lines)

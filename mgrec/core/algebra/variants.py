"""Warnings about functions with the same code and other constants, each compiled again."""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType

MAX_VARIANTS = 32
"""Number of variants of one code before a warning."""

Codes = tuple[CodeType, ...]


@dataclass
class _Variants:
    fingerprints: set[str] = field(default_factory=set)
    has_warned: bool = False

    def accept(self, fingerprint: str) -> bool:
        """Return whether a fingerprint is one of the first MAX_VARIANTS."""
        if len(self.fingerprints) < MAX_VARIANTS:
            self.fingerprints.add(fingerprint)
        return fingerprint in self.fingerprints


_lock = threading.Lock()


@lru_cache(maxsize=256)
def _variants_of(codes: Codes) -> _Variants:
    return _Variants()


def is_within_limit(codes: Codes, fingerprint: str) -> bool:
    """Return whether a function is one of the first MAX_VARIANTS of its code in this process."""
    with _lock:
        return _variants_of(codes).accept(fingerprint)


def warn_of_variants(owner: str, codes: Codes, fingerprint: str) -> None:
    """Warn once for each code with too many variants that numbers belong in operands."""
    with _lock:
        variants = _variants_of(codes)
        if variants.accept(fingerprint) or variants.has_warned:
            return
        variants.has_warned = True
    code = codes[0]
    warnings.warn(
        f"{MAX_VARIANTS + 1} times a {owner} was made of the same code ({code.co_name} in "
        f"{code.co_filename}, line {code.co_firstlineno}) with other values in its closure or "
        f"module: each one is compiled again, and numba never frees the 5 to 12 MB that it takes. "
        f"Pass numbers that change as operands: a scalar stays a scalar",
        stacklevel=stacklevel_of_caller(),
    )


def stacklevel_of_caller() -> int:
    """Return the ``stacklevel`` of the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "mgrec":
        frame, level = frame.f_back, level + 1
    return level

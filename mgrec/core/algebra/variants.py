"""Functions with the same code that read other values, each of which is compiled again."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from types import CodeType

from .callers import level_of_caller

MOST = 32
"""Number of variants of one code before a warning. Further ones differ only in their numbers."""
_CODES = 256

Codes = tuple[CodeType, ...]


@dataclass
class _Seen:
    fingerprints: set[str] = field(default_factory=set)
    has_warned: bool = False


_lock = threading.Lock()
_seen: OrderedDict[Codes, _Seen] = OrderedDict()


def is_ordinary(codes: Codes, fingerprint: str) -> bool:
    """Return whether a function is one of the first MOST variants of its code in this process."""
    with _lock:
        return _is_ordinary(_of(codes), fingerprint)


def warn_of_variants(owner: str, codes: Codes, fingerprint: str) -> None:
    """Warn once for each code that numbers belong in operands."""
    with _lock:
        seen = _of(codes)
        if _is_ordinary(seen, fingerprint) or seen.has_warned:
            return
        seen.has_warned = True
    code = codes[0]
    warnings.warn(
        f"{MOST + 1} times a {owner} was made of the same code ({code.co_name} in "
        f"{code.co_filename}, line {code.co_firstlineno}) with other values in its closure or "
        f"module: each one is compiled again, and numba never frees the 5 to 12 MB that it takes. "
        f"Pass numbers that change as operands: a scalar stays a scalar",
        stacklevel=level_of_caller(),
    )


def _of(codes: Codes) -> _Seen:
    seen = _seen.setdefault(codes, _Seen())
    _seen.move_to_end(codes)
    if len(_seen) > _CODES:
        _seen.popitem(last=False)
    return seen


def _is_ordinary(seen: _Seen, fingerprint: str) -> bool:
    if len(seen.fingerprints) < MOST:
        seen.fingerprints.add(fingerprint)
    return fingerprint in seen.fingerprints

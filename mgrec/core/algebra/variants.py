"""The line of the user's code to which a warning refers."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from types import CodeType


def stacklevel_of_caller() -> int:
    """Return the ``stacklevel`` of the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "mgrec":
        frame, level = frame.f_back, level + 1
    return level


MAX_VARIANTS = 32
"""Number of variants of one code before a warning. Further ones differ only in their numbers."""
_CODES = 256

Codes = tuple[CodeType, ...]


@dataclass
class _Seen:
    fingerprints: set[str] = field(default_factory=set)
    has_warned: bool = False


_lock = threading.Lock()
_seen: OrderedDict[Codes, _Seen] = OrderedDict()


def is_within_limit(codes: Codes, fingerprint: str) -> bool:
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
        f"{MAX_VARIANTS + 1} times a {owner} was made of the same code ({code.co_name} in "
        f"{code.co_filename}, line {code.co_firstlineno}) with other values in its closure or "
        f"module: each one is compiled again, and numba never frees the 5 to 12 MB that it takes. "
        f"Pass numbers that change as operands: a scalar stays a scalar",
        stacklevel=stacklevel_of_caller(),
    )


def _of(codes: Codes) -> _Seen:
    seen = _seen.setdefault(codes, _Seen())
    _seen.move_to_end(codes)
    if len(_seen) > _CODES:
        _seen.popitem(last=False)
    return seen


def _is_ordinary(seen: _Seen, fingerprint: str) -> bool:
    if len(seen.fingerprints) < MAX_VARIANTS:
        seen.fingerprints.add(fingerprint)
    return fingerprint in seen.fingerprints

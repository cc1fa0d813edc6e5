"""cub::DeviceScan of several releases, as libraries built by build.sh."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...harness.machine import optional
from ..candidates import Build, Candidate

cupy = optional("cupy")
FOLDER = Path(os.environ.get("CUB_LIBRARIES", Path(__file__).parent))


class Library:
    """One release of CUB."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.variant.restype = ctypes.c_char_p
        version = self._library.version()
        self.name = f"CUB {version // 100_000}.{version // 100 % 1000}"

    def variants(self, itemsize: int) -> dict[str, int]:
        """The number of a variant: what it reads and how it is tuned."""
        names: dict[str, int] = {}
        while name := self._library.variant(len(names)):
            names[name.decode()] = len(names)
        return {
            f"{self.name} {name}": number
            for name, number in names.items()
            if itemsize == 4 or not name.startswith("Words")
        }

    def builds(self, s: Any, t: Any) -> dict[str, Build]:
        """w = s·w + t in all variants: of Arrays, Words, Pairs or PairsToPairs."""

        @cache
        def pairs() -> Any:
            return cupy.stack((s, t), axis=-1)

        def build(number: int, layout: str) -> Candidate:
            operands = (pairs(), t) if layout.startswith("Pairs") else (s, t)
            w = cupy.empty((t.size, 2) if layout == "PairsToPairs" else t.size, t.dtype)
            call = _launch(partial(self._library.affine, number, t.itemsize), operands, w, t.size)
            return Candidate(call, w[:, 1] if layout == "PairsToPairs" else w)

        return {
            name: partial(build, number, name.split()[2])
            for name, number in self.variants(t.itemsize).items()
        }

    def sum(self, t: Any) -> Candidate:
        """Inclusive sum."""
        w = cupy.empty(t.size, t.dtype)
        return Candidate(_launch(partial(self._library.sum, t.itemsize), (t,), w, t.size), w)


def _launch(
    function: Callable[..., int], operands: tuple[Any, ...], w: Any, count: int
) -> Callable[[], None]:
    size = ctypes.c_size_t()
    pointers = [ctypes.c_void_p(array.data.ptr) for array in (*operands, w)]
    stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)

    def scan(space: ctypes.c_void_p) -> None:
        status = function(space, ctypes.byref(size), *pointers, ctypes.c_uint(count), stream)
        if status:
            raise RuntimeError(f"CUB returned CUDA error {status}")

    scan(ctypes.c_void_p())
    space = cupy.empty(size.value, cupy.uint8)
    address = ctypes.c_void_p(space.data.ptr)
    # The operands live as long as the call does.
    return lambda held=(operands, w, space): scan(address)  # type: ignore[misc]


@cache
def libraries() -> list[Library]:
    """All libraries of the folder, the oldest release first."""
    return [Library(path) for path in sorted(FOLDER.glob("libscan-*.so"))]

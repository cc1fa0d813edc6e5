"""CUDA kernels: their text, and their compilation by NVRTC with a cache on disk."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..code_on_disk import CodeFolder, log_not_stored
from .device import Device

_PACKAGE = Path(__file__).parents[2]
_VARIABLE = "CUPY_CACHE_DIR"
OPTIONS = ("-std=c++17", "-ftz=false")
UNFUSED = (*OPTIONS, "-fmad=false")
"""Products are rounded before they are added, as in a plain loop on the host."""

_local = threading.local()


@cache
def kernel_text(*names: str) -> str:
    """Return the text of kernel files and of the files that they include, each file once.

    A name is a path in this package without its ending, such as ``scans/cuda/rows/determine``.
    Included text is inserted, so that the text of a program is the key of its compiled code.
    """
    seen: set[str] = set()
    return "".join(line for name in names for line in _expand(name, seen))


def _expand(name: str, seen: set[str]) -> list[str]:
    if name in seen:
        return []
    seen.add(name)
    lines: list[str] = []
    for line in (_PACKAGE / f"{name}.cuh").read_text().splitlines(keepends=True):
        if line.startswith('#include "'):
            lines += _expand(line.split('"')[1].removesuffix(".cuh"), seen)
        elif not line.startswith("#pragma once"):
            lines.append(line)
    return lines


def compile_to_cubin(text: str, options: tuple[str, ...] = OPTIONS) -> bytes:
    """Compile a program, without includes, for the current device, or load it from disk.

    ``cupy.RawModule(code=...)`` appends -ftz=true to all options: float32 would lose subnormal
    numbers, which the sequential loop has.
    """
    import cupy
    from cupy.cuda import compiler, nvrtc

    capability = cupy.cuda.Device().compute_capability
    version = ".".join(map(str, nvrtc.getVersion()))
    key = "\n".join((*options, capability, version, cupy.__version__, text))
    name = f"mgrec-{sha256(key.encode()).hexdigest()[:40]}.cubin"
    folder = _cache_folder()
    stored = folder and folder.load(name, key)
    if stored:
        return stored
    binary: bytes = compiler.compile_using_nvrtc(text, options, cache_in_memory=True)[0]
    if folder:
        folder.store(name, key, binary)
    return binary


def _cache_folder() -> CodeFolder | None:
    """Return a folder in that of CuPy's kernels; None for a user without a home."""
    try:
        parent = Path(os.environ.get(_VARIABLE, "~/.cupy/kernel_cache")).expanduser()
    except RuntimeError as error:
        log_not_stored(_VARIABLE, str(error))
        return None
    return CodeFolder(parent, _VARIABLE)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel."""

    function: Any

    def __call__(
        self, blocks: int, threads: int, arguments: Any, shared_bytes: int, cooperative: bool = True
    ) -> None:
        """Launch the kernel.

        Blocks of a look-ahead wait for each other. A cooperative launch makes all of them resident
        at once, or fails.
        """
        if cooperative:
            self._require_room(blocks, threads, shared_bytes)
        self.function((blocks,), (threads,), arguments, shared_bytes, enable_cooperative_groups=cooperative)

    def _require_room(self, blocks: int, threads: int, shared_bytes: int) -> None:
        """Raise an error unless the GPU runs all blocks at once: CuPy launches fewer, with a warning."""
        count = _driver().occupancyMaxActiveBlocksPerMultiprocessor
        most = count(self.function.ptr, threads, shared_bytes) * Device.current().multiprocessors
        if blocks > most:
            raise RuntimeError(
                f"a kernel whose blocks wait for each other needs {blocks} of them at once; this GPU "
                f"runs {most}"
            )

    def launch(
        self, pointers: int, stream: int, blocks: int, threads: int, shared_bytes: int, cooperative: bool
    ) -> None:
        """Launch the kernel on a stream; `pointers` is the address of pointers to the arguments.

        CuPy's own call takes 2 microseconds more, mostly to inspect the arguments.
        """
        driver, ptr = _driver(), self.function.ptr
        if cooperative:
            driver.launchCooperativeKernel(ptr, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, pointers)
        else:
            driver.launchKernel(ptr, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, pointers, 0)


def _driver() -> Any:
    """Return the driver, once the context of the current device is that of this thread."""
    try:
        return _local.driver
    except AttributeError:
        import cupy

        cupy.cuda.runtime.setDevice(cupy.cuda.runtime.getDevice())
        _local.driver = cupy.cuda.driver
        return _local.driver


def compile_kernel(text: str, name: str, shared_bytes: int = 0, *, is_fused: bool = True) -> Kernel:
    """Compile a program for the current device, or load it from disk; return its kernel `name`.

    If `is_fused`, s·w + t is rounded once, otherwise twice, as on the host.
    """
    import cupy

    return _compile(text, name, shared_bytes, is_fused, cupy.cuda.runtime.getDevice())


# A program that leaves the cache is unloaded after its last launch.
@lru_cache(maxsize=1024)
def _compile(text: str, name: str, shared_bytes: int, is_fused: bool, device: int) -> Kernel:
    import cupy

    # A RawModule needs a file in a writable folder, and is never unloaded.
    module = cupy.cuda.function.Module()
    module.load(compile_to_cubin(text, OPTIONS if is_fused else UNFUSED))
    function = module.get_function(name)
    if shared_bytes:  # 48 KB, less what the kernel declares itself, need no permission
        attribute = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        cupy.cuda.driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
    return Kernel(function)

"""Programs compiled by NVRTC, kept on disk beside CuPy's own.

``cupy.RawModule(code=...)`` puts -ftz=true behind whatever options it is given: float32 would
lose its subnormal numbers, which the sequential loop has.
"""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...uncached import say_uncached

OPTIONS = ("-std=c++17", "-ftz=false")
UNFUSED = (*OPTIONS, "-fmad=false")
"""Products are rounded before they are added, as in a plain loop on the host."""


def compiled(text: str, options: tuple[str, ...] = OPTIONS) -> bytes:
    """Compile a program for the current device, or find it on disk.

    Parameters
    ----------
    text : str
        CUDA C++, without includes.
    options : tuple of str
        OPTIONS or UNFUSED.

    Returns
    -------
    bytes
        The binary.

    Raises
    ------
    cupy.cuda.compiler.CompileException
        With the compiler's messages.
    """
    import cupy
    from cupy.cuda import compiler, nvrtc

    capability = cupy.cuda.Device().compute_capability
    version = ".".join(map(str, nvrtc.getVersion()))
    key = "\n".join((*options, capability, version, cupy.__version__, text))
    name = f"mgrec-{sha256(key.encode()).hexdigest()[:40]}.cubin"
    found = _find(name)
    if found is not None:
        return found
    binary: bytes = compiler.compile_using_nvrtc(text, options, cache_in_memory=True)[0]
    _keep(binary, name)
    return binary


def _find(name: str) -> bytes | None:
    try:
        return (_folder() / name).read_bytes()
    except (OSError, RuntimeError):
        return None


def _keep(binary: bytes, name: str) -> None:
    """Write under another name first: other processes look for the file at the same time.

    What cannot be written, to a folder without permission or a disk that is full, is not kept.
    """
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
            _write(binary, file, folder / name)
    except (OSError, RuntimeError) as error:
        say_uncached("CUPY_CACHE_DIR", str(error))


def _write(binary: bytes, file: Any, path: Path) -> None:
    try:
        file.write(binary)
        file.close()
        os.replace(file.name, path)
    except OSError:
        os.unlink(file.name)
        raise


def _folder() -> Path:
    """CuPy's folder of compiled kernels; RuntimeError for a user without a home."""
    return Path(os.environ.get("CUPY_CACHE_DIR", "~/.cupy/kernel_cache")).expanduser()

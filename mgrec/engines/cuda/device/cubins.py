"""Programs compiled by NVRTC, kept on disk beside CuPy's own.

``cupy.RawModule(code=...)`` puts -ftz=true behind whatever options it is given: float32 would
lose its subnormal numbers, which the sequential loop has.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from ...code_on_disk import CodeFolder, log_not_stored

_VARIABLE = "CUPY_CACHE_DIR"
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
    folder = _folder()
    stored = folder and folder.load(name, key)
    if stored:
        return stored
    binary: bytes = compiler.compile_using_nvrtc(text, options, cache_in_memory=True)[0]
    if folder:
        folder.store(name, key, binary)
    return binary


def _folder() -> CodeFolder | None:
    """CuPy's folder of compiled kernels; None for a user without a home."""
    try:
        parent = Path(os.environ.get(_VARIABLE, "~/.cupy/kernel_cache")).expanduser()
    except RuntimeError as error:
        log_not_stored(_VARIABLE, str(error))
        return None
    return CodeFolder(parent, _VARIABLE)

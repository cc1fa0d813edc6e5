"""Programs compiled by NVRTC, kept on disk beside CuPy's own.

``cupy.RawModule(code=...)`` puts -ftz=true behind whatever options it is given: float32 would
lose its subnormal numbers, which the sequential loop has.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

OPTIONS = ("-std=c++17", "-ftz=false")
UNFUSED = (*OPTIONS, "-fmad=false")
"""Products are rounded before they are added, as in a plain loop on the host."""


def compiled(text: str, options: tuple[str, ...] = OPTIONS) -> Path:
    """Compile a program for the current device, or find it on disk.

    Parameters
    ----------
    text : str
        CUDA C++, without includes.
    options : tuple of str
        OPTIONS or UNFUSED.

    Returns
    -------
    pathlib.Path
        Of the binary.

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
    path = _folder() / f"mgrec-{sha256(key.encode()).hexdigest()[:40]}.cubin"
    if not path.exists():
        binary, _ = compiler.compile_using_nvrtc(text, options, cache_in_memory=True)
        _keep(binary, path)
    return path


def _keep(binary: bytes, path: Path) -> None:
    """Write under another name first: other processes look for the file at the same time."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        file.write(binary)
    os.replace(file.name, path)


@cache
def _folder() -> Path:
    """CuPy's folder of compiled kernels, or one that lasts as long as this process."""
    given = os.environ.get("CUPY_CACHE_DIR", "~/.cupy/kernel_cache")
    folder = Path(given).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="mgrec-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="mgrec-"))

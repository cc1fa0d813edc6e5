"""Compilers without a GPU: g++, whose kernels run on this machine, and NVRTC."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cuda_on_host import HostCompiler, emulate
from internals import record_solved

from mgrec.engines.cuda.compilation import OPTIONS

# The same errors are found in a quarter of the time. NVRTC 13.5 then calls some alignments an
# "unsupported operation", and compiles them without the option.
_FAST = "--Ofast-compile=max"


@pytest.fixture
def on_host(pytestconfig: pytest.Config) -> Iterator[HostCompiler]:
    """Let launches of arrays of a device run here, over NumPy arrays."""
    with emulate(pytestconfig) as compiler:
        yield compiler


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems that were solved without a prepared call."""
    found: list[Any] = record_solved(monkeypatch)
    return found


@pytest.fixture(scope="session")
def compile_text() -> Callable[[str, int], None]:
    """Compile a program for an architecture by NVRTC; fail with its messages."""
    package = importlib.util.find_spec("nvidia")
    folders = list(package.submodule_search_locations or []) if package else []
    found = [path for folder in folders for path in Path(folder).glob("**/libnvrtc.so.1?")]
    if not found:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    nvrtc = ctypes.CDLL(str(found[0]))

    def compile_by(options: Sequence[str], text: str, architecture: int) -> str | None:
        """Return None, or the messages of a program that does not compile."""
        program = ctypes.c_void_p()
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"mgrec.cu", 0, None, None)
        encoded = [f"-arch=compute_{architecture}".encode(), *map(str.encode, options)]
        array = (ctypes.c_char_p * len(encoded))(*encoded)
        status = nvrtc.nvrtcCompileProgram(program, len(encoded), array)
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return log.value.decode()[:2000] if status else None

    compiled: set[tuple[int, int]] = set()

    def compile_text(text: str, architecture: int) -> None:
        # One program in twelve is that of another test.
        key = hash(text), architecture
        if key in compiled:
            return
        messages = compile_by((*OPTIONS, _FAST), text, architecture)
        if messages is not None and "unsupported operation" in messages:
            messages = compile_by(OPTIONS, text, architecture)
        assert messages is None, messages
        compiled.add(key)

    return compile_text

"""An emulated GPU: CuPy's arrays are NumPy's, and g++ compiles the CUDA kernels."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mgrec.core.backends import CPU
from mgrec.core.contract import recurrence
from mgrec.engines.cuda import backend, launches
from mgrec.engines.cuda import device as device_module
from mgrec.engines.cuda.device import Device

HEADER = Path(__file__).with_name("cuda_on_host.h")
# Shared memory whose size the launch tells.
_DYNAMIC = re.compile(r"extern __shared__ __align__\(\d+\) unsigned char (\w+)\[\];")
# What each statement in assembler does here, by how it begins.
_STATEMENTS = {
    "bar.sync 1,": "host_meet(1, THREADS)",
    "bar.sync 6,": "host_meet(6, LOOKAHEAD)",
    "bar.sync %0,": "host_meet(barrier, threads)",
    "bar.arrive": "host_arrive(barrier, threads)",
    "st.relaxed": "host_store(address, first, second)",
    "{.reg .pred asked": "if (is_needed) host_load(address, first, second)",
    "mbarrier.init": "*barrier = 0",
    "mbarrier.arrive": "host_expect(barrier, bytes)",
    "cp.async.bulk.shared": "host_bulk_load(to, from, bytes, barrier)",
    "cp.async.bulk.global": "host_bulk_store(to, from, bytes)",
    "cp.async.bulk.commit": "",
    "cp.async.bulk.wait": "",
    "cp.async.c": "",  # threads copy by themselves here
    "cp.async.wait": "",
    "fence": "",
    ' : "+l"': "",  # hides where a number comes from
    "{\\n.reg .pred chosen": "elected = threadIdx.x % 32 == 0",
    "{\\n.reg": "host_wait(barrier, parity)",
}
LAUNCHER = """
extern "C" void launch_{0}(int blocks, int threads, void** arguments) {{
  launch<{0}>(blocks, threads, arguments);
}}
"""


class HostCompiler:
    """Stands in for ``compile_kernel``: builds each program once, in a folder.

    Attributes
    ----------
    launches : list of (str, int, int)
        Kernel, blocks and threads of every launch so far.
    """

    def __init__(self, folder: Path) -> None:
        if shutil.which("g++") is None:
            pytest.skip("no g++ on this machine")
        self.folder = folder
        # One launch runs at a time, as on one stream.
        self.lock = threading.Lock()
        self.libraries: dict[str, ctypes.CDLL] = {}
        self.launches: list[tuple[str, int, int]] = []

    def __call__(self, text: str, name: str, shared_bytes: int = 0, *, is_fused: bool = True) -> Any:
        with self.lock:
            if text not in self.libraries:
                self.libraries[text] = self._build(text)
        function = getattr(self.libraries[text], f"launch_{name}")

        def launch(blocks: int, threads: int, arguments: Any, shared: int, cooperative: bool = True) -> None:
            self.launches.append((name, blocks, threads))
            with self.lock:
                function(blocks, threads, _pack(arguments))

        def launch_by_address(
            pointers: int, stream: int, blocks: int, threads: int, shared: int, cooperative: bool
        ) -> None:
            self.launches.append((name, blocks, threads))
            with self.lock:
                function(blocks, threads, ctypes.c_void_p(pointers))

        launch.launch = launch_by_address  # type: ignore[attr-defined]
        return launch

    def _build(self, text: str) -> ctypes.CDLL:
        names = re.findall(r"(\w+_kernel)\(", text)
        launchers = "".join(LAUNCHER.format(name) for name in names)
        source = f'#include "{HEADER.name}"\n{translate(text)}{launchers}'
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        library, path = self.folder / f"{digest}.so", self.folder / f"{digest}-{os.getpid()}.cpp"
        if not library.exists():
            self._compile_header()
            path.write_text(source)
            self._compile("-shared", str(path), "-o", str(path.with_suffix(".so")))
            path.with_suffix(".so").replace(library)  # other processes may build it, too
            path.unlink()
        return ctypes.CDLL(str(library))

    def _compile_header(self) -> None:
        """Compile the header beforehand: it is most of a small program."""
        compiled = self.folder / f"{HEADER.name}.gch"
        if not compiled.exists():
            own = compiled.with_suffix(f".{os.getpid()}")
            self._compile("-x", "c++-header", str(HEADER), "-o", str(own))
            own.replace(compiled)

    def _compile(self, *arguments: str) -> None:
        # Shared memory of an inline function would be one for all programs of this process.
        # Fibers jump from stack to stack, which _FORTIFY_SOURCE forbids.
        options = "-std=c++17 -O0 -ffp-contract=off -fno-gnu-unique -U_FORTIFY_SOURCE -w -fPIC -pthread"
        # g++ would link the library of C++, whose symbols take a third of the time to read.
        command = f"gcc -fno-exceptions -fno-threadsafe-statics {options}"
        subprocess.run([*command.split(), *arguments], check=True)


def translate(text: str) -> str:
    """Return a program for this machine."""
    text = _DYNAMIC.sub(r"alignas(128) static thread_local unsigned char \1[1 << 18];", text)
    text = text.replace("const volatile Unit*", "PublishedWords")
    before, *others = text.split("asm volatile(")
    return before + "".join(map(_translated, others))


def _translated(text: str) -> str:
    """What follows an ``asm volatile(``, its statement in C++."""
    statement, rest = text.split(");", 1)
    while statement.count("(") > statement.count(")"):
        more, rest = rest.split(");", 1)
        statement += ");" + more
    code = statement.strip().lstrip('"')
    found = next((c for begin, c in _STATEMENTS.items() if code.startswith(begin)), "abort()")
    return found + ";" + rest


def _pack(arguments: Any) -> Any:
    """Pointers to the arguments' values, as the CUDA driver takes them."""
    kept = []
    for argument in arguments:
        if isinstance(argument, np.ndarray) and argument.dtype.char == "V":
            kept.append(np.asarray(argument))  # a struct by value
        elif isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            kept.append(np.array(argument.ctypes.data, np.uint64))
        else:
            kept.append(np.array(argument))
    packed = (ctypes.c_void_p * len(kept))(*(x.ctypes.data for x in kept))
    packed.kept = kept
    return packed


class _Place(AbstractContextManager[None]):
    """A device or a stream of CuPy. All work is done when a launch returns."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


class _Device(_Place):
    id = 0


class _Stream(_Place):
    ptr = 77

    def is_capturing(self) -> bool:
        return False


class DeviceArray(np.ndarray[Any, Any]):
    """A NumPy array that public functions see as CuPy's, in the memory of a device."""

    __cuda_array_interface__ = None
    device = _Device()

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None) -> DeviceArray:
        """Return a new array, or one of the memory at an address."""
        if memptr is None:
            return np.empty(shape, dtype).view(cls)
        size = np.dtype(dtype).itemsize
        if strides is None:
            size *= prod(shape)
        else:
            size += sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        memory = (ctypes.c_char * size).from_address(memptr.ptr)
        return np.ndarray.__new__(cls, shape, dtype, memory, 0, strides)

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data, device_id=0)

    def get(self, out: Any = None, blocking: bool = True) -> np.ndarray[Any, Any]:
        if out is None:
            return np.array(self)
        out[...] = self
        return np.asarray(out)

    def set(self, values: Any) -> None:
        self[...] = values

    def astype(self, *arguments: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):  # CuPy does not warn
            return super().astype(*arguments, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        result = super().__array_function__(function, types, args, options)
        if function is np.asarray:  # with ``like=``
            result = np.array(result)
        # Where an argument is in the memory of a device, the result is, too.
        return result.view(type(self)) if isinstance(result, np.ndarray) else result

    def __array_ufunc__(
        self, function: Any, method: str, *operands: Any, out: Any = (), **options: Any
    ) -> Any:
        if out:
            options["out"] = tuple(map(_as_host, out))
        with np.errstate(all="ignore"):
            results = getattr(function, method)(*map(_as_host, operands), **options)
        if out:
            return out[0] if len(out) == 1 else out
        if isinstance(results, tuple):
            return tuple(np.asarray(result).view(DeviceArray) for result in results)
        return np.asarray(results).view(DeviceArray)


def _as_host(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, DeviceArray) else array


DeviceArray.__module__ = "cupy"


def as_device(array: Any) -> DeviceArray:
    return np.ascontiguousarray(array).view(DeviceArray)


def poisoned(shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """An array of bytes that no result has."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = 0xFE
    return array


def empty(shape: Any, dtype: Any) -> Any:
    return poisoned(shape, dtype).view(DeviceArray)


def _on_device(function: Any) -> Any:
    """Return a function whose results are in the memory of the device."""
    return lambda *given, **options: np.asarray(function(*given, **options)).view(DeviceArray)


class _Random:
    def __init__(self, seed: Any = None) -> None:
        self._generator = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return _on_device(getattr(self._generator, name))


def numpy_as_cupy() -> Any:
    """A module that returns NumPy arrays, new ones poisoned, where CuPy's are asked for."""

    def as_array(x: Any, dtype: Any = None) -> Any:
        is_cast = dtype is not None and getattr(x, "dtype", None) != dtype
        if isinstance(x, DeviceArray) and not is_cast:
            return x
        array = np.array(x, dtype, order="A")
        return array.astype(array.dtype.newbyteorder("="), copy=False).view(DeviceArray)

    def event(**options: Any) -> Any:
        return types.SimpleNamespace(done=True, record=lambda: None, synchronize=lambda: None)

    stream = _Stream()
    runtime = types.SimpleNamespace(
        getDevice=lambda: 0,
        getDeviceCount=lambda: 1,
        setDevice=lambda number: None,
        pointerGetAttributes=lambda address: types.SimpleNamespace(device=0),
        CUDARuntimeError=RuntimeError,
    )
    module: Any = types.ModuleType("cupy")
    module.__getattr__ = lambda name: getattr(np, name)  # type: ignore[method-assign]
    module.ndarray, module.__version__ = DeviceArray, "14"
    module.is_available = lambda: True
    module.asarray, module.asnumpy = as_array, np.array
    module.ascontiguousarray = lambda x: np.asarray(x, order="C").view(DeviceArray)
    module.empty = lambda *given: poisoned(*given).view(DeviceArray)
    names = "arange concatenate empty_like full full_like ones ones_like where zeros zeros_like"
    for name in names.split():
        setattr(module, name, _on_device(getattr(np, name)))
    module.broadcast_to = partial(np.broadcast_to, subok=True)
    module.random = types.SimpleNamespace(default_rng=_Random)
    module.cuda = types.SimpleNamespace(
        runtime=runtime,
        get_current_stream=lambda: stream,
        Event=event,
        Stream=_Stream,
        Device=_Device,
        is_available=lambda: True,
        UnownedMemory=lambda address, size, owner, device: types.SimpleNamespace(ptr=address, owner=owner),
        MemoryPointer=lambda memory, offset: types.SimpleNamespace(ptr=memory.ptr + offset),
    )
    return module


def pretend_cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let arrays of NumPy be CuPy's, while a test runs; return the module."""
    module = numpy_as_cupy()
    modules = {
        "cupy": module,
        "cupy.lib.stride_tricks": np.lib.stride_tricks,
        "cupyx": types.SimpleNamespace(empty_pinned=poisoned),
    }
    for name, value in modules.items():
        monkeypatch.setitem(sys.modules, name, value)
    monkeypatch.setitem(backend._memory_sizes, DeviceArray.device.id, 2**36)
    # CuPy's arrays are no subclass of NumPy's, which a chunk would take for arrays of the host.
    monkeypatch.setattr(recurrence, "as_native", lambda block: block)
    return module


def forget_launches() -> None:
    """Forget the launches and calls that were prepared for other devices."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mgrec.") and (".cuda" in name or ".solve" in name):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def use_device(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    """Let launches that are prepared from now on be those of a device."""
    monkeypatch.setattr(Device, "current", staticmethod(lambda: device))
    forget_launches()


# Few multiprocessors, since a block is a thread here.
DEVICE = Device(90, 4, 227 * 1024)


def _multiply_shifted(factor: Any, values: Any, shift: int, count: int, product: Any, size: int) -> None:
    CPU.multiply_shifted(factor, values, product, shift)


@lru_cache
def _compiler(folder: Path | None) -> HostCompiler:
    return HostCompiler(folder or Path(tempfile.mkdtemp(prefix="mgrec-emulated-")))


@contextmanager
def emulate(config: pytest.Config) -> Iterator[HostCompiler]:
    """Let CUDA code run on an emulated GPU, whose compiled kernels the cache of pytest keeps.

    Without that cache this process compiles all of them. All streams are one, and an element of an
    array is a scalar of NumPy.
    """
    version = hashlib.sha256(HEADER.read_bytes()).hexdigest()[:8]
    cache = getattr(config, "cache", None)
    compiler = _compiler(cache and cache.mkdir(f"emulated-{version}"))
    compiler.launches.clear()
    with pytest.MonkeyPatch.context() as patch:
        pretend_cupy(patch)
        patch.setattr(launches, "compile_kernel", compiler)
        patch.setattr(device_module, "_local", threading.local())
        # A kernel that CuPy compiles.
        patch.setattr(backend, "_shifted_product", lambda: _multiply_shifted)
        use_device(patch, DEVICE)
        yield compiler
    forget_launches()

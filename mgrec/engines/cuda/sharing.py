"""Device memory that several processes of one machine read and write, by CUDA IPC."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from .device import Device

LARGEST_TAG = 2**31
_lock = threading.Lock()
_unused: dict[int, list[SharedMemory]] = {}
_opened: dict[bytes, int] = {}


@dataclass
class SharedMemory:
    """Memory of a GPU, and the handle by which another process opens it.

    It is allocated outside of CuPy's pool, since a handle is that of a whole allocation, and never
    freed: another process may have opened it. :func:`give_back` keeps it for the next use.

    `device`: the number of the GPU in this process.
    `tag`, `last_tag`: words have tags up to `tag`; this use may have tags up to `last_tag`.
    """

    device: int
    address: int
    size: int
    handle: bytes
    tag: int = 0
    last_tag: int = 0


def take(size: int, tags: int) -> SharedMemory:
    """Return memory of at least so many bytes on the current device, for so many more tags."""
    from cupy.cuda import Stream, runtime

    device = runtime.getDevice()
    with _lock:
        unused = _unused.setdefault(device, [])
        fitting = [m for m in unused if m.size >= size and m.last_tag + tags < LARGEST_TAG]
        memory = min(fitting, key=lambda memory: memory.size, default=None)
        if memory is not None:
            unused.remove(memory)
    if memory is None:
        size = 1 << (size - 1).bit_length()
        address = runtime.malloc(size)
        # On a stream of its own: kernels of other streams may wait for other GPUs.
        stream = Stream(non_blocking=True)
        runtime.memsetAsync(address, 0, size, stream.ptr)
        stream.synchronize()
        memory = SharedMemory(device, address, size, bytes(runtime.ipcGetMemHandle(address)))
    memory.tag, memory.last_tag = memory.last_tag, memory.last_tag + tags
    return memory


def give_back(memory: SharedMemory) -> None:
    """Return memory that no process uses any more; on any thread, whatever its device is."""
    with _lock:
        _unused[memory.device].append(memory)


def open_shared(handle: bytes) -> int:
    """Return the address of another process's memory."""
    from cupy.cuda import runtime

    with _lock:
        if handle not in _opened:
            _opened[handle] = runtime.ipcOpenMemHandle(handle)
        return _opened[handle]


def offer() -> tuple[bytes, str, Device]:
    """Return a handle of a little memory for :func:`accept`, the address of the GPU, its kind."""
    from cupy.cuda import runtime

    memory = take(8, 0)
    give_back(memory)
    return memory.handle, runtime.deviceGetPCIBusId(runtime.getDevice()), Device.current()


def accept(handle: bytes) -> None:
    """Raise an error unless this process can open another one's memory."""
    open_shared(handle)

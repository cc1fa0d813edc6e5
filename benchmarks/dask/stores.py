"""Arrays in files of the streaming study: made, dropped from the page cache, flushed, copied."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from mgrec.cli import files

CHUNK = 2_000_000


def create(path: Path, size: int) -> Any:
    if path.suffix == ".npy":
        return files.create(path, da.zeros(size, chunks=-1))
    import zarr

    return zarr.create_array(str(path), shape=(size,), chunks=(CHUNK,), dtype="f8", compressors=None)


def load(path: Path) -> da.Array:
    if path.suffix == ".zarr":
        return da.from_zarr(str(path))
    return files.lazy(files.open_array(str(path)), {-1: CHUNK})


def write_operand(path: Path, size: int) -> None:
    store, rng = create(path, size), np.random.default_rng(ord(path.stem))
    for left in range(0, size, CHUNK):
        part = slice(left, min(left + CHUNK, size))
        store[part] = rng.uniform(-1, 1, part.stop - left)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def files_of(path: Path) -> list[Path]:
    if path.suffix == ".npy":
        return [path]
    return sorted(file for file in (path / "c").rglob("*") if file.is_file())


def flush(path: Path, is_dropped: bool = False) -> None:
    """Flush an array's files to the disk, and drop them from the page cache."""
    for name in files_of(path):
        file = os.open(name, os.O_RDONLY)
        os.fsync(file)
        if is_dropped:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def drop_caches(paths: list[Path], target: Path) -> None:
    for path in paths:
        flush(path, is_dropped=True)
    remove(target)


def pieces(path: Path) -> Iterator[tuple[Path, int]]:
    """The files of an array, and where a chunk begins in them."""
    for file in files_of(path):
        for left in range(0, file.stat().st_size, 8 * CHUNK):
            yield file, left


def copy_bytes(paths: list[Path], target: Path, threads: int) -> float:
    """Seconds to read all operands and to write the last one to existing files."""
    drop_caches(paths, target)
    create(target, sum(file.stat().st_size for file in files_of(paths[-1])) // 8)

    def copy(chunks: tuple[tuple[Path, int], ...]) -> None:
        for file, left in chunks:
            with open(file, "rb", buffering=0) as source:
                source.seek(left)
                data = source.read(8 * CHUNK)
        into = target if target.suffix == ".npy" else target / "c" / file.name
        into.parent.mkdir(exist_ok=True)
        with open(into, "r+b" if into.exists() else "wb", buffering=0) as written:
            written.seek(left)
            written.write(data)

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, zip(*map(pieces, paths), strict=True)))
    flush(target)
    return time.perf_counter() - start


def opened(path: Path) -> Any:
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    import zarr

    return zarr.open_array(path, mode="r")

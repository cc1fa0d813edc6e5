"""Recordings in files: arrays as elsewhere, and .wav, read and written chunk by chunk."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import dask.array as da
import numpy as np

from . import mapped, stores
from .failure import BadInput

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_KINDS = {(_PCM, 8): "u1", (_PCM, 16): "<i2", (_PCM, 24): "3u1", (_PCM, 32): "<i4",
          (_FLOAT, 32): "<f4", (_FLOAT, 64): "<f8"}  # fmt: skip
# What integers are divided by; three bytes are read as the upper ones of four.
_SCALES = {"u1": 2**7, "<i2": 2**15, "3u1": 2**31, "<i4": 2**31}
# Sizes of RIFF chunks have 32 bits.
_LARGEST = 2**32 - 1024
# Recorders that do not know the size write this: the samples go on to the end.
_UNTOLD = 2**32 - 1


@dataclass(frozen=True)
class Wave:
    """The samples of a .wav file, which every access opens anew.

    Attributes
    ----------
    path : str
        Absolute.
    shape : tuple of int
        (samples,) or (samples, channels).
    dtype : numpy.dtype
        float32 or float64; integers of the file are scaled to −1 … 1.
    raw : str
        The dtype in the file.
    offset : int
        Of the first sample, in bytes.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    raw: str
    offset: int
    chunks: None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _samples(self, mode: Any) -> Any:
        if 0 in self.shape:
            return np.empty(self.shape, self.raw)
        return np.memmap(self.path, self.raw, mode, self.offset, self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        block = mapped.read(self._samples("r"), index)
        block = (_of_three_bytes(block) if self.raw == "3u1" else block).astype(self.dtype)
        if self.raw == "u1":
            block -= 128
        return block / self.dtype.type(_SCALES[self.raw]) if self.raw in _SCALES else block

    def __setitem__(self, index: Any, block: np.ndarray) -> None:
        mapped.write(self._samples("r+"), index, block)


def _of_three_bytes(samples: np.ndarray) -> np.ndarray:
    """Integers of 24 bits, bytes along the last axis, as the upper ones of 32 bits."""
    wide = np.zeros((*samples.shape[:-1], 4), "u1")
    wide[..., 1:] = samples
    return wide.view("<i4")[..., 0]


@dataclass(frozen=True)
class Recording:
    """An input, the axis of its time, and its samples a second where it knows them."""

    stored: Any
    axis: int
    rate: float | None


def check_kind(path: Path) -> None:
    """Raise unless a path names a kind of file that can be read and written here."""
    if path.suffix != ".wav":
        if path.suffix not in stores.KINDS:
            raise BadInput(f"{path} must end in .npy, .zarr or .wav")
        stores.check_kind(path)


def find(path: Path) -> Recording:
    """Open an input."""
    check_kind(path)
    if path.suffix != ".wav":
        return Recording(stores.find(path), -1, None)
    if not path.is_file():
        raise BadInput(f"{path} does not exist")
    try:
        with path.open("rb") as file:
            return _parsed(path, file)
    except (OSError, struct.error) as error:
        raise BadInput(f"{path} cannot be read as a .wav file: {error}") from error


def _parsed(path: Path, file: BinaryIO) -> Recording:
    """The chunks ``fmt`` and ``data`` of a RIFF file."""
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise BadInput(f"{path} is no .wav file: it begins with {head[:4]!r}")
    layout: tuple[int, ...] = ()
    while True:
        header = file.read(8)
        if len(header) < 8:
            raise BadInput(f"{path} has no samples")
        name, size = header[:4], struct.unpack("<I", header[4:])[0]
        if name == b"data":
            break
        body = file.read(size + size % 2)
        if name == b"fmt ":
            kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", body[:16])
            kind = struct.unpack("<H", body[24:26])[0] if kind == _EXTENSIBLE else kind
            layout = kind, channels, rate, bits
    if not layout:
        raise BadInput(f"{path} does not say how its samples are laid out")
    kind, channels, rate, bits = layout
    if (kind, bits) not in _KINDS:
        raise BadInput(
            f"{path} must have samples of 8, 16, 24 or 32 bits, or floats; got {bits} bits of "
            f"format {kind}"
        )
    if not channels or not rate:
        raise BadInput(
            f"{path} must have at least one channel and one sample a second; its header tells "
            f"{channels} and {rate}"
        )
    raw = _KINDS[kind, bits]
    there = path.stat().st_size - file.tell()
    if there < size < _UNTOLD:
        raise BadInput(f"{path} was cut short: {size:,} bytes of samples are told, {there:,} there")
    samples = min(size, there) // (channels * bits // 8)
    shape = (samples,) if channels == 1 else (samples, channels)
    dtype = np.dtype(np.float64 if (bits == 32 and kind == _PCM) or bits == 64 else np.float32)
    return Recording(Wave(str(path.resolve()), shape, dtype, raw, file.tell()), 0, rate)


def as_output(path: Path, y: da.Array, rate: float) -> da.Array:
    """The result in a dtype that its file can hold: float32 in a .wav file."""
    if path.suffix != ".wav":
        return y
    if y.ndim > 2 or y.dtype.kind == "c":
        raise BadInput(
            f"{path} must hold real samples (samples,) or (samples, channels); got {y.dtype} "
            f"{y.shape}"
        )
    if rate % 1:
        raise BadInput(
            f"{path} must have whole samples a second; got {rate:g}: use .npy or .zarr, or round "
            f"--rate"
        )
    if y.size * 4 > _LARGEST:
        raise BadInput(f"{path} cannot hold {y.size * 4:,} bytes: use .npy or .zarr")
    return y.astype(np.float32)


def create(path: Path, y: da.Array, rate: float) -> Any:
    """A new file for a result; disk space of a .wav file is reserved."""
    if path.suffix != ".wav":
        return stores.create(path, y.shape, y.dtype, y.chunks)
    channels = y.shape[1] if y.ndim == 2 else 1
    size = y.size * 4
    frame, rate = channels * 4, int(rate)
    layout = struct.pack("<HHIIHH", _FLOAT, channels, rate, rate * frame, frame, 32)
    parts = b"WAVEfmt " + struct.pack("<I", 16) + layout + b"data" + struct.pack("<I", size)
    header = b"RIFF" + struct.pack("<I", len(parts) + size) + parts
    with path.open("wb") as file:
        file.write(header)
        file.flush()
        stores.reserve(file.fileno(), len(header) + size, path)
    return Wave(str(path), y.shape, y.dtype, "<f4", len(header))

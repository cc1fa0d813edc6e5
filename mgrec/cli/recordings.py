"""Recordings in files: arrays as elsewhere, and sound, read and written chunk by chunk."""

from __future__ import annotations

import importlib.util
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from . import hints, stores, workers
from .failure import BadInput
from .places import Place, kind_of

SOUNDS = (".wav", ".rf64", ".w64", ".flac", ".aiff", ".ogg")
"""What libsndfile reads from any sample on, by soundfile."""
_WRITTEN = (".wav", ".rf64")
# Sizes of RIFF chunks have 32 bits; RF64 has others, and this in their place.
_LARGEST, _ELSEWHERE = 2**32 - 1024, 2**32 - 1
_FLOAT = 3
# What libsndfile notes of a file that is shorter than its header tells.
_SHORT = re.compile(r"^data\s*:\s*(\d+) \(should be (\d+)\)", re.MULTILINE)


@dataclass(frozen=True)
class Sound:
    """The samples of a file, which every access opens anew.

    Attributes
    ----------
    path : str
        Absolute.
    shape : tuple of int
        (samples,) or (samples, channels).
    dtype : numpy.dtype
        float32 or float64; integers of the file are scaled to −1 … 1.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        samples, *channels = index if isinstance(index, tuple) else (index,)
        start, stop, _ = samples.indices(self.shape[0])
        with workers.told(self.path), _opened(self.path) as file:
            file.seek(start)
            block = file.read(stop - start, self.dtype.name, always_2d=self.ndim == 2)
        if len(block) < stop - start:
            raise OSError(f"{self.path} has become shorter since it was opened")
        return np.asarray(block[(slice(None), *channels)])


def _opened(path: str) -> Any:
    import soundfile

    # libsndfile says of it no more than that there is a system error.
    Path(path).stat()
    return soundfile.SoundFile(path)


@dataclass(frozen=True)
class Recording:
    """An input, the axis of its time, and its samples a second where it knows them."""

    stored: Any
    axis: int
    rate: float | None


def check_kind(path: Place) -> None:
    """Raise unless a path names a kind of file that can be written here."""
    if path.suffix not in _WRITTEN:
        if kind_of(path) not in stores.KINDS:
            raise BadInput(f"{path} must end in .npy, .zarr or .wav")
        stores.check_kind(path)


def find(path: Place) -> Recording:
    """Open an input."""
    if path.suffix not in SOUNDS:
        if kind_of(path) not in stores.KINDS:
            raise BadInput(f"{path} must end in .npy, .zarr, {', '.join(SOUNDS)}")
        return Recording(stores.find(path), -1, None)
    if not isinstance(path, Path):
        raise BadInput(f"{path} must be a file of this file system: copy it first")
    if importlib.util.find_spec("soundfile") is None:
        raise BadInput(f"{path} needs soundfile: {hints.install('audio')}")
    if not path.is_file():
        raise BadInput(f"{path} does not exist")
    return _found(path)


def _found(path: Path) -> Recording:
    import soundfile

    try:
        with _opened(str(path)) as file:
            frames, channels, rate = file.frames, file.channels, file.samplerate
            subtype, notes = file.subtype, file.extra_info
    except (OSError, soundfile.LibsndfileError) as error:
        raise BadInput(f"{path} cannot be read as a recording: {error}") from error
    told = _SHORT.search(notes)
    # Recorders that do not know the size write the largest one: the samples go on to the end.
    if told and int(told[2]) < int(told[1]) < _ELSEWHERE:
        raise BadInput(
            f"{path} was cut short: {int(told[1]):,} bytes of samples are told, "
            f"{int(told[2]):,} there"
        )
    dtype = np.dtype(np.float64 if subtype in ("PCM_32", "DOUBLE") else np.float32)
    shape = (frames,) if channels == 1 else (frames, channels)
    return Recording(Sound(str(path.resolve()), shape, dtype), 0, rate)


def as_output(path: Place, y: da.Array, rate: float) -> da.Array:
    """The result in a dtype that its file can hold: float32 in a .wav file."""
    if path.suffix not in _WRITTEN:
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
    return y.astype(np.float32)


def create(path: Place, y: da.Array, rate: float) -> Any:
    """A new file for a result; disk space of a .wav file is reserved."""
    if path.suffix not in _WRITTEN or not isinstance(path, Path):
        return stores.create(path, y.shape, y.dtype, y.chunks)
    channels = y.shape[1] if y.ndim == 2 else 1
    is_long = path.suffix == ".rf64" or y.size * 4 > _LARGEST
    header = _header(len(y), channels, int(rate), is_long)
    with path.open("wb") as file:
        file.write(header)
        file.flush()
        stores.reserve(file.fileno(), len(header) + y.size * 4, path)
    return stores.Stored(str(path), y.shape, np.dtype("<f4"), None, len(header))


def _header(samples: int, channels: int, rate: int, is_long: bool) -> bytes:
    """What comes before the samples: RIFF, or RF64 with sizes of 64 bits (EBU Tech 3306)."""
    frame = 4 * channels
    size = samples * frame
    layout = struct.pack("<HHIIHH", _FLOAT, channels, rate, rate * frame, frame, 32)
    body = b"fmt " + struct.pack("<I", 16) + layout + b"data"
    if not is_long:
        parts = b"WAVE" + body + struct.pack("<I", size)
        return b"RIFF" + struct.pack("<I", len(parts) + size) + parts
    whole = len(b"WAVE") + 36 + len(body) + 4 + size
    sizes = b"ds64" + struct.pack("<IQQQI", 28, whole, size, samples, 0)
    elsewhere = struct.pack("<I", _ELSEWHERE)
    return b"RF64" + elsewhere + b"WAVE" + sizes + body + elsewhere

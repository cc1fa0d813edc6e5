"""Images in files, decoded by Pillow: as arrays of rows, columns and, if there are, channels."""

from __future__ import annotations

import importlib.util
import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from . import hints, stores, workers
from .failure import BadInput
from .places import Place, kind_of

_decoding = threading.Lock()


@dataclass(frozen=True)
class Picture:
    """An image file, which every worker decodes once.

    Attributes
    ----------
    path : str
        Absolute.
    shape : tuple of int
        (rows, columns) or (rows, columns, channels).
    dtype : numpy.dtype
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        with workers.told(self.path), _decoding:  # threads that ask at once would decode it each
            array = _decoded(self.path, os.stat(self.path).st_mtime_ns)
        if array.shape != self.shape or array.dtype != self.dtype:
            raise OSError(f"{self.path} has changed since it was opened")
        return np.ascontiguousarray(array[index])


@lru_cache(maxsize=1)
def _decoded(path: str, time: int) -> np.ndarray:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # large images are what this is for
    with Image.open(path) as image:
        frames = getattr(image, "n_frames", 1)
        if frames > 1:
            raise BadInput(f"{path} holds {frames} frames; wanted one")
        # What a palette's numbers stand for, not the numbers.
        return np.asarray(image.convert("RGB") if image.mode == "P" else image)


def find(path: Place) -> Any:
    """Open an input: an image, or an array in a .npy file or a .zarr store."""
    if kind_of(path) in stores.KINDS:
        return stores.find(path)
    if not isinstance(path, Path):
        raise BadInput(f"{path} must be a file of this file system: copy it first")
    if importlib.util.find_spec("PIL") is None:
        raise BadInput(f"{path} needs Pillow: {hints.install('image')}")
    if not path.is_file():
        raise BadInput(f"{path} does not exist")
    absolute = path.resolve()
    try:
        array = _decoded(str(absolute), absolute.stat().st_mtime_ns)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{path} cannot be read as an image: {error}") from error
    return Picture(str(absolute), array.shape, array.dtype)


def axes_of(stored: Any) -> tuple[int, int]:
    """The rows and columns."""
    return (0, 1) if isinstance(stored, Picture) else (-2, -1)

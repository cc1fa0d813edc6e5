"""Rows in parts, and the order of P-scheme/G in which neighbouring threads read neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.launches import Launch, run_launches

_SIDE = 32
_LONG = 256
"""Steps from which a part is a whole number of tiles, so that every part begins aligned."""
_WIDE = 1024
"""Parts from which a rearranged row is a whole number of tiles, for the same reason."""
_THREADS = 256
_WORDS = {
    1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long",
    16: "ulonglong2",
}  # fmt: skip
_ENTRIES = """
#define PARTS const Parts parts = {outers, steps, inners, length, per_row, stride}
extern "C" __global__ void rearrange_kernel(const Word* natural, Word* rearranged, long long outers,
    long long steps, long long inners, long long length, long long per_row, long long stride,
    bool reverse) {
  PARTS;
  rearrange(natural, rearranged, parts, reverse);
}
extern "C" __global__ void restore_kernel(const Word* rearranged, Word* natural, long long outers,
    long long steps, long long inners, long long length, long long per_row, long long stride) {
  PARTS;
  restore(rearranged, natural, parts);
}
"""


@dataclass(frozen=True)
class Partition:
    """Rows cut into parts of equal length, the last one of a row shorter.

    Attributes
    ----------
    shape : (int, int, int)
        (outer, steps, inner) of the chunk, none of them 0.
    length : int
        Steps of a part.
    per_row : int
        Parts of a row.
    """

    shape: tuple[int, int, int]
    length: int
    per_row: int

    @staticmethod
    def of(shape: tuple[int, int, int], processors: int) -> Partition:
        """Cut the rows for as many processors: each whole where rows are as many as those."""
        outers, steps, inners = shape
        length = -(-steps // max(1, processors // (outers * inners)))
        if length >= _LONG:
            length = -(-length // _SIDE) * _SIDE
        return Partition(shape, length, -(-steps // length))

    @property
    def count(self) -> int:
        outers, _, inners = self.shape
        return outers * self.per_row * inners

    @property
    def stride(self) -> int:
        """Elements of a row in rearranged order, all parts and a few that nobody reads."""
        return self.count if self.count < _WIDE else -(-self.count // _SIDE) * _SIDE

    @property
    def rearranged_shape(self) -> tuple[int, int]:
        """(length + 1, stride): with whole parts N + P elements."""
        return self.length + 1, self.stride

    @property
    def tiles(self) -> int:
        """Blocks that transpose."""
        return -(-self.count // _SIDE) * -(-self.length // _SIDE)

    def sizes(self, *, is_rearranged: bool = True) -> tuple[Any, ...]:
        """The kernels' arguments of ``struct Parts``."""
        stride = self.stride if is_rearranged else 0
        return tuple(map(np.int64, (*self.shape, self.length, self.per_row, stride)))


@cache
def print_rearrangement(itemsize: int) -> str:
    """Print the program of the transpositions; they move words, whatever they mean."""
    prelude = f"#define DEVICE __device__\ntypedef {_WORDS[itemsize]} Word;\n"
    return prelude + kernel_text("scans/cuda/p_scheme/rearrange") + _ENTRIES


def _transpose(name: str, partition: Partition, *arguments: Any) -> None:
    text = print_rearrangement(arguments[0].itemsize)
    run_launches(Launch(text, name, partition.tiles, _THREADS, arguments))


def rearrange(array: Any, partition: Partition, *, reverse: bool = False, out: Any = None) -> Any:
    """Bring an array of contiguous rows into rearranged order.

    Parameters
    ----------
    array : CuPy array (outer, steps, 1), C-contiguous
    partition : Partition
    reverse : bool, optional
        Time runs against memory.
    out : CuPy array, optional
        Of ``partition.rearranged_shape`` and the same dtype.

    Returns
    -------
    CuPy array (length + 1, stride)
        Step j of part p is element (j + 1, p). Row 0 repeats the last element, in time, of
        the part before; of a row's first part it is left as it was, as is what lies past the
        end of a row.
    """
    import cupy

    _require_rows(partition)
    if array.shape != partition.shape:
        raise ValueError(
            f"array must have the shape of the parts, {partition.shape}; got {array.shape}"
        )
    out = cupy.empty(partition.rearranged_shape, array.dtype) if out is None else out
    _transpose("rearrange_kernel", partition, array, out, *partition.sizes(), np.bool_(reverse))
    return out


def restore(rearranged: Any, partition: Partition, *, out: Any = None) -> Any:
    """Bring a rearranged array back into natural order.

    Parameters
    ----------
    rearranged : CuPy array (length + 1, stride)
    partition : Partition
    out : CuPy array, optional
        Of ``partition.shape`` and the same dtype.

    Returns
    -------
    CuPy array (outer, steps, 1)
        ``restore(rearrange(x, partition), partition) == x``.
    """
    import cupy

    _require_rows(partition)
    if rearranged.shape != partition.rearranged_shape:
        raise ValueError(
            f"rearranged must have the shape {partition.rearranged_shape}; got {rearranged.shape}"
        )
    out = cupy.empty(partition.shape, rearranged.dtype) if out is None else out
    _transpose("restore_kernel", partition, rearranged, out, *partition.sizes())
    return out


def _require_rows(partition: Partition) -> None:
    if partition.shape[2] != 1:
        raise ValueError(
            f"rows along a slow axis are read in neighbouring addresses as they lie, and are not "
            f"rearranged; got {partition.shape[2]} columns"
        )

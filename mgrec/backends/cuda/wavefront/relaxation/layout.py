"""How the grids of a relaxation are cut into strips, bands and tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...device.compilation import Device

Shape = tuple[int, int, int]
LANES = 32
_TILE_BYTES = 128
# Bands of a strip: every one has a scheduler of a multiprocessor to itself.
_WARPS = 4
# Sweeps of a launch, by the bytes of a number: registers and right-hand sides set the limit.
_SWEEPS = {4: 8, 8: 4}
# Threads of a multiprocessor: each may have 128 registers, or twice as many for wide sweeps.
_THREADS = 512
_WIDE = 16


@dataclass(frozen=True)
class RelaxationLayout:
    """Constants that the kernel is compiled with. Results do not depend on them.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the grids.
    sweeps : int
        Of a launch.
    warps : int
        Bands of a strip, each of 32 rows: one warp sweeps a band, another carries it.
    has_rhs : bool
        There is a right-hand side.
    is_checked : bool
        The largest update of the last sweep is asked for.
    alone : bool
        A grid is one strip.
    """

    dtype: np.dtype[np.floating]
    sweeps: int
    warps: int
    has_rhs: bool
    is_checked: bool
    alone: bool = False

    @property
    def steps(self) -> int:
        """Of a tile."""
        return _TILE_BYTES // self.dtype.itemsize

    @property
    def threads(self) -> int:
        return 2 * LANES * self.warps

    @property
    def shared_bytes(self) -> int:
        """Of a block: what the kernel's struct Shared takes, or a little more."""
        read = (LANES + 1) * (3 * self.steps + 1)
        written = 2 * LANES * (self.steps + 1)
        rhs = (LANES + self.sweeps) * (4 * self.steps + 3 * self.sweeps) if self.has_rhs else 1
        edges = 2 * self.sweeps * self.steps
        size = (self.warps + 1) * edges + self.warps * (read + written + rhs)
        return -(-size * self.dtype.itemsize // 16) * 16

    def blocks(self, device: Device) -> int:
        """Of a multiprocessor."""
        by_memory = (device.shared_bytes + 1024) // (self.shared_bytes + 1024)
        is_wide = self.sweeps * self.dtype.itemsize > _WIDE
        return max(1, min(by_memory, (_THREADS // 2 if is_wide else _THREADS) // self.threads))

    def print(self) -> str:
        numbers = {
            "STEPS": self.steps, "SWEEPS": self.sweeps, "WARPS": self.warps,
            "SHARED_BYTES": self.shared_bytes, "STAGES": 2,
        }  # fmt: skip
        flags = {"HAS_RHS": self.has_rhs, "IS_CHECKED": self.is_checked, "ALONE": self.alone}
        lines = [f"constexpr int {k} = {v};" for k, v in numbers.items()]
        lines += [f"constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Cut:
    """Grids in strips, of which all bands have the same tiles.

    Attributes
    ----------
    layout : RelaxationLayout
    shape : (int, int, int)
        Grids, rows and columns.
    """

    layout: RelaxationLayout
    shape: Shape

    @property
    def strip_rows(self) -> int:
        """Of a grid that is one strip, at most: the last sweep is behind what a strip reads."""
        return LANES * self.layout.warps - self.layout.sweeps

    @property
    def strips(self) -> int:
        """Of a grid."""
        return -(-(self.shape[1] + self.layout.sweeps) // (LANES * self.layout.warps))

    @property
    def tiles(self) -> int:
        """Of a band: a thread is two columns behind the one before, a sweep one."""
        steps = self.shape[2] + self.layout.sweeps + 2 * LANES
        return -(-steps // self.layout.steps)

    @property
    def words(self) -> int:
        """Words of 64 bits by which strips pass on their edges."""
        if self.layout.alone:
            return 0
        told = self.tiles * self.layout.steps - 2 * LANES
        parts = -(-self.layout.dtype.itemsize // 4)
        return self.shape[0] * self.strips * told * self.layout.sweeps * parts

    def blocks(self, device: Device) -> int:
        return min(self.shape[0] * self.strips, self.layout.blocks(device) * device.multiprocessors)


def cut_of(
    shape: Shape, dtype: np.dtype[np.floating], sweeps: int, has_rhs: bool, is_checked: bool,
    device: Device
) -> Cut:  # fmt: skip
    """Choose how grids are cut up."""
    warps = min(_WARPS, -(-(shape[1] + sweeps) // LANES))
    layout = RelaxationLayout(dtype, sweeps, warps, has_rhs, is_checked)
    while layout.warps > 1 and layout.shared_bytes > device.shared_bytes:
        layout = replace(layout, warps=layout.warps - 1)
    return Cut(replace(layout, alone=Cut(layout, shape).strips == 1), shape)


def launches_of(sweeps: int, dtype: np.dtype[np.floating]) -> list[int]:
    """The sweeps of each launch, as few launches as can be, and about the same number each.

    Examples
    --------
    >>> launches_of(10, np.dtype("f4"))
    [5, 5]
    """
    count = -(-sweeps // _SWEEPS[dtype.itemsize])
    return [(sweeps + k) // count for k in range(count)]

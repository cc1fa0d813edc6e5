"""Grids in strips, which blocks of a GPU process in order and which exchange their edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engines.cuda.device import Device
from ...engines.cuda.launches import EPOCH, SPACE, Launch, Slot

Shape = tuple[int, int, int]
"""Grids, rows and columns."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__({threads}, {blocks}) {name}(
    const {struct} all{parameters}) {{
  {function}(all{arguments});
}}
"""


@dataclass(frozen=True)
class StripPartition(ABC):
    """Grids of a shape, divided into strips."""

    layout: Any
    shape: Shape

    @property
    @abstractmethod
    def strips(self) -> int:
        """Strips of a grid."""

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return int(self.layout.shared_bytes)

    def blocks(self, device: Device) -> int:
        """Return the number of blocks of a launch, all resident at once."""
        return min(self.shape[0] * self.strips, self.layout.blocks * device.multiprocessors)

    def launch(
        self, device: Device, text: str, name: str, function: str, most_blocks: int, words: int,
        *, struct: str = "Grids", is_fused: bool = False
    ) -> Launch:  # fmt: skip
        """Return the launch of a function of a program, which takes a struct of so many words.

        The kernel is compiled for `most_blocks` on a multiprocessor.
        """
        is_exchanged = not self.layout.is_single_strip
        text += _KERNEL.format(
            threads=self.layout.threads, blocks=most_blocks, name=name, struct=struct,
            parameters=", Unit* descriptors, unsigned epoch" if is_exchanged else "",
            function=function, arguments=", descriptors, epoch" if is_exchanged else "",
        )  # fmt: skip
        grids = Slot(0, (words,), np.dtype(np.int64), None)
        arguments = (grids, SPACE, EPOCH) if is_exchanged else (grids,)
        return Launch(
            text, name, self.blocks(device), self.layout.threads, arguments,
            self.shared_bytes, is_cooperative=is_exchanged, is_fused=is_fused,
        )  # fmt: skip

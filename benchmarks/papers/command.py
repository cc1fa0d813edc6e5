"""The command of a paper's study: measure, write tables and a picture, or draw them again."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..harness import machine
from ..harness.records import RESULTS, draw_small, read, save
from ..harness.study import Study


@dataclass(frozen=True)
class Paper:
    """One paper's study.

    Attributes
    ----------
    about : str
        A line for the command's help.
    on_gpu, on_cpu : callable, ``() -> Study``
        The study at the paper's sizes, and at small ones without a GPU.
    tables : callable, ``(record) -> str``
    draw : callable, ``(record) -> matplotlib.figure.Figure``
    """

    about: str
    on_gpu: Callable[[], Study]
    on_cpu: Callable[[], Study]
    tables: Callable[[dict[str, Any]], str]
    draw: Callable[[dict[str, Any]], Any]

    def write(self, record: dict[str, Any], folder: Path) -> Path:
        """The record, its tables and its picture."""
        path = save(record, folder, self.tables(record))
        draw_small(self.draw(record), path.with_suffix(".png"))
        return path

    def draw_again(self, path: Path) -> None:
        """Tables and picture of a record that is there."""
        record = read(path)
        path.with_suffix(".md").write_text(self.tables(record))
        draw_small(self.draw(record), path.with_suffix(".png"))

    def main(self, arguments: list[str] | None = None) -> None:
        given = _parser(self.about).parse_args(arguments)
        if given.plot:
            self.draw_again(given.plot)
            return
        calibrations = [machine.calibrate() for _ in range(20)]
        study = self.on_cpu() if given.cpu else self.on_gpu()
        study.calibrations += calibrations
        print(self.write(study.record(given.machine), given.out))


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--cpu", action="store_true", help="small sizes of NumPy arrays, no GPU")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--machine", help="name in the file's name; the processor's by default")
    parser.add_argument(
        "--plot", type=Path, metavar="RESULT", help="tables and picture of a result"
    )
    return parser

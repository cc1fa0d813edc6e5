"""The command of a study: it parses arguments, runs the study, and writes or draws its result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import machine
from .records import RESULTS, draw_small, read, save
from .study import Study

Options = Mapping[str, dict[str, Any]]
"""Arguments of a command: their names, and the options of ``add_argument``."""
Record = dict[str, Any]


def parser_of(about: str, options: Options) -> argparse.ArgumentParser:
    """Return the parser of a program that the first line of a docstring describes."""
    module = getattr(sys.modules["__main__"].__spec__, "name", "").removesuffix(".__main__")
    program = f"python -m {module}" if module else None
    parser = argparse.ArgumentParser(program, description=about.split("\n")[0])
    for name, option in options.items():
        parser.add_argument(name, **option)
    return parser


@dataclass(frozen=True)
class Command:
    """A study that is declared: what it measures, and what is special about its result.

    Attributes
    ----------
    name, about : str
        Name of the study, and its docstring.
    measure : dict of str to callable ``(study, repetitions)``, or callable ``(study, arguments)``
        Parts, of which the command may choose some; or the whole study.
    repetitions : (int, int)
        Repetitions of parts, and those for ``--quick``.
    options : dict
        Arguments that only this study has.
    tables : callable, ``(record) -> str``, optional
        Text of a study that has its own, and that is drawn as soon as it is written.
    picture : callable, ``(record) -> matplotlib.figure.Figure``, optional
        The default has a line for each case and a dot for each candidate.
    """

    name: str
    about: str
    measure: Any
    repetitions: tuple[int, int] = (0, 0)
    options: Options = field(default_factory=dict)
    tables: Callable[[Record], str] | None = None
    picture: Callable[[Record], Any] | None = None

    @property
    def parser(self) -> argparse.ArgumentParser:
        parts: Options = {}
        if isinstance(self.measure, Mapping):
            few = f"{self.repetitions[1]} repetitions, to see that it works"
            parts = {
                "parts": {"nargs": "*", "metavar": "PART", "help": ", ".join(self.measure)},
                "--quick": {"action": "store_true", "help": few},
            }
        return parser_of(self.about, {**parts, **self.options, **_RESULT})

    def main(self, given: Sequence[str] | None = None) -> None:
        arguments = self.parser.parse_args(given)
        if arguments.plot:
            self.draw(arguments.plot)
            return
        study = Study(self.name)
        study.calibrations += [machine.calibrate() for _ in range(20)]
        self.run(study, arguments)
        study.calibrations += [machine.calibrate() for _ in range(20)]
        record = study.record(arguments.machine)
        if not record["load"]["quiet"]:
            print(f"The machine was not quiet: {record['load']}")
        print(self.write(record, arguments.out))

    def run(self, study: Study, arguments: argparse.Namespace) -> None:
        if not isinstance(self.measure, Mapping):
            self.measure(study, arguments)
            return
        for name in arguments.parts or self.measure:
            self.measure[name](study, self.repetitions[arguments.quick])

    def write(self, record: Record, folder: Path) -> Path:
        """Write a record and its tables; with tables of its own a study has a picture."""
        path = save(record, folder, self.tables and self.tables(record))
        if self.tables:
            self.draw(path)
        return path

    def draw(self, path: Path) -> None:
        """Draw a record that is stored, and write tables of its study again."""
        record, target = read(path), path.with_suffix(".png")
        if self.tables:
            path.with_suffix(".md").write_text(self.tables(record))
        if self.picture:
            draw_small(self.picture(record), target)
            return
        from ..published import dots, rows

        target.write_bytes(dots.draw(rows.read(path)) or b"")


_RESULT: Options = {
    "--out": {"type": Path, "default": RESULTS, "help": "folder of the result files"},
    "--machine": {"help": "name in the file's name; the processor's by default"},
    "--plot": {"type": Path, "metavar": "RESULT", "help": "draw a result, beside it"},
}

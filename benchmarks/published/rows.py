"""Rows of stored results, by study, case and candidate, so that no document types a number.

Studies name their columns differently; here each row has a case, a candidate ("" where a study
has mgrec alone) and numbers, to which "ms" (of a call), "ns" (a step) and "GCUPS" (10^9 steps a
second) are added where they follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..harness import records

_DATED = re.compile(r"-\d{4}-\d\d-\d\d\.json$")


@dataclass(frozen=True)
class Row:
    """One measured case."""

    case: str
    candidate: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Result:
    """A result file: the newest of a study on a machine."""

    path: Path
    machine: str
    date: str
    note: str
    rows: tuple[Row, ...]

    def number(self, case: str, candidate: str, value: str) -> float:
        """One number; what a document asks for must be there."""
        for row in self.rows:
            if (row.case, row.candidate) == (case, candidate) and value in row.numbers:
                return row.numbers[value]
        raise LookupError(f"{self.path.name} has no {value!r} of {candidate!r} in {case!r}")


@cache
def newest(study: str) -> Result:
    """The last result of a study and machine, such as ``cpu-epyc-2``, or that of a date."""
    files = records.RESULTS.glob("*.json")
    found = [path for path in files if study in (path.stem, _DATED.sub("", path.name))]
    if not found:
        raise LookupError(f"there is no result of {study!r} in {records.RESULTS}")
    return read(max(found))


def read(path: Path) -> Result:
    """A result file."""
    record = records.read(path)
    rows = tuple(_row(row) for row in record.get("rows") or record["cases"])
    return Result(path, _machine(record), record["date"][:10], record.get("note", ""), rows)


def _machine(record: dict[str, Any]) -> str:
    about = record.get("machine") or {"processor": "a model", "cores": 0}
    if about.get("gpu"):
        return str(about["gpu"])
    gpus = [name.split(",")[0] for name in about.get("gpus", [])]
    if gpus and not record.get("memory", "").startswith("memory"):
        return f"{len(gpus)} × {gpus[0]}" if len(gpus) > 1 else gpus[0]
    quiet = "" if record.get("load", {}).get("quiet", True) else ", not quiet"
    return f"{about['cores']} cores of {about['processor']}{quiet}"


def _row(row: dict[str, Any]) -> Row:
    numbers = {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return Row(_case(row), str(row.get("candidate") or row.get("solver") or ""), _more(numbers))


def _case(row: dict[str, Any]) -> str:
    if "case" in row:
        return str(row["case"])
    shape = row.get("shape") or [row["samples"]]
    words = [row["filter"], f"{' × '.join(f'{n:,}' for n in shape)} {row['dtype']}"]
    if row.get("x", row["dtype"]) != row["dtype"]:
        words.append(f"of {row['x']}")
    return ": ".join(words)


def _more(numbers: dict[str, float]) -> dict[str, float]:
    more = dict(numbers)
    if "median" in numbers:
        more["ms"] = numbers["median"] * 1e3
        if numbers.get("steps"):
            more["ns"] = numbers["median"] / numbers["steps"] * 1e9
            more["GCUPS"] = 1 / more["ns"]
    elif "in a row ms" in numbers:
        more["ms"] = numbers["in a row ms"]
        if "GCUPS in a row" in numbers:
            more["GCUPS"] = numbers["GCUPS in a row"]
    return more

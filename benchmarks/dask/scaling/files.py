"""Files of a scaling study, complete even if the run is cut short."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...harness import records
from ...harness.study import Study
from .cases import SCALED, WAYS, way_of

COLUMNS = (
    "case",
    "workers",
    "chunks",
    "median ms",
    "min",
    "max",
    "kernels ms",
    "Dask ms",
    "of a copy",
    "efficiency",
    "bytes across",
)


def keep(study: Study, machine: str | None, folder: Path) -> Path:
    """Write the study's record and tables so far; each file is replaced as a whole."""
    record = study.record(machine)
    rows = [row for row in record["cases"] if "workers" in row and "kernels" in row]
    others = [row for row in record["cases"] if row not in rows]
    tables = records.tables({**record, "cases": others}) + table(rows)
    hidden = folder / ".partial"
    path = records.save(record, hidden, tables)
    for own in (path.with_suffix(".md"), path):
        os.replace(own, folder / own.name)
    hidden.rmdir()
    return folder / path.name


def table(rows: list[dict[str, Any]]) -> str:
    """A table of measurements, one row a number of workers."""
    rows = sorted(rows, key=_place)
    lines = ["", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(_words(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n" if rows else ""


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Parts in the order of the study, then cases, ways, workers."""
    part = max(k for k, name in enumerate(SCALED) if row["case"].startswith(name))
    way = WAYS.index(way_of(row["candidate"]))
    return row["rows"], part, row["case"], way, row["workers"]


def _words(row: dict[str, Any]) -> list[str]:
    times = [_milliseconds(row.get(key)) for key in ("median", "min", "max")]
    alone = [_milliseconds(row.get(key)) for key in ("kernels", "dask")]
    keys = ("copy_fraction", "efficiency")
    shares = ["" if row.get(key) is None else f"{row[key]:.2f}" for key in keys]
    chunks = f"{row['chunks']} of {row['chunk']:,}"
    return [
        row["case"],
        row["candidate"].removesuffix(" workers"),
        chunks,
        *times,
        *alone,
        *shares,
        str(row["bytes_across"]),
    ]


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.4g}"

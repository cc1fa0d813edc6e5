"""Predict a scaling study on 1, 2, 4, 8, ... GPUs from measurements on fewer.

The model is fitted on the rows of a result file; the kernels' share of a cut that was not
measured follows from the bandwidth of a copy there and the fraction of it that kernels reached.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...harness import machine
from . import model
from .cases import CASES, SCALED, WAYS, Case, Cell, stages, steps_of_chunk, way_of

WORKERS = (1, 2, 4, 8)
FAR = (64, 1024)
"""Numbers of workers for which only the bar's case is predicted."""
LATENCY = re.compile(r"([\d,]+) chunks of ([\d,]+), persisted")
COUNT = re.compile(r"(\d+) workers")
PERFECT = 1.0


def workers_of(record: dict[str, Any]) -> int:
    return int(COUNT.match(record["memory"])[1])  # type: ignore[index]


def rows_of(record: dict[str, Any], way: str = "graph") -> list[dict[str, Any]]:
    """The rows that a model is fitted on, with its inputs for each."""
    found = []
    for row in record["cases"]:
        of_latency = LATENCY.fullmatch(row["case"])
        if of_latency and row["candidate"] == ("mgrec" if way == WAYS[0] else way):
            chunks, chunk = (int(each.replace(",", "")) for each in of_latency.groups())
            workers = workers_of(record)
        elif "efficiency" in row and way_of(row["candidate"]) == way:
            chunks, chunk, workers = row["chunks"], row["steps"] // row["chunks"], row["workers"]
        else:
            continue
        if row.get("kernels"):  # older results have none for filters
            cut = {"chunks": chunks, "chunk": chunk, "workers": workers}
            has_states = CASES[_name_of(row)].has_states
            found.append({**row, **cut, **_terms(way, chunks, workers, has_states)})
    return found


def _name_of(row: dict[str, Any]) -> str:
    """The case of a row; those of the latency part are of arrays."""
    return next((name for name in CASES if row["case"].endswith(f", {name}")), "arrays")


def _terms(way: str, chunks: int, workers: int, has_states: bool) -> dict[str, Any]:
    """Without a graph no process serves all workers: a chunk costs time of its worker only."""
    if way == WAYS[0]:
        count = model.tasks(chunks, workers, has_states)
        return {"tasks": count, "is_asking": chunks >= model.FEW}
    return {"tasks": -(-chunks // workers), "is_asking": False}


def fit(record: dict[str, Any]) -> dict[str, Any]:
    """The models of a record by way, with their errors, also on rows left out of the fit."""
    found: dict[str, Any] = {}
    for way in WAYS:
        rows = rows_of(record, way)
        if len(rows) < 5:
            continue
        fitted = model.fit(rows)
        found[way] = {**model.describe(fitted), "errors": model.errors_of(fitted, rows)}
        several = [row for row in rows if "efficiency" in row and row["workers"] > 1]
        others = [row for row in rows if row not in several]
        if len(several) >= 2 and len(others) >= 5:
            blind = model.fit(others)
            # The short chunks of the latency part are kept: only they separate the share of the
            # scheduler from that of the workers.
            found[way]["errors of several workers' rows, left out of the fit"] = model.errors_of(
                blind, several
            )
    return found


def kernels(record: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a chunk without steps, and the fraction of a copy that kernels reach by case."""
    bandwidth = record["copy_bandwidth"] / workers_of(record)
    rows = rows_of(record)
    of_latency = [row for row in rows if "efficiency" not in row]
    short = min((row["chunk"] for row in of_latency), default=0)
    alone = [
        r["kernels"] / max(model.shares(r["chunks"], r["workers"])) for r in of_latency if r["chunk"] == short
    ]
    launch = float(np.median(alone)) if alone else 0.0
    fractions: dict[str, float] = {}
    for name, case in CASES.items():
        own = [
            model.kernels_of(
                _words(case, r.get("begins")), r["chunk"], r["chunks"], r["workers"], 0.0, bandwidth
            )
            / max(r["kernels"] - launch * max(model.shares(r["chunks"], r["workers"])), 1e-9)
            for r in rows
            if r["case"].endswith(f", {name}")
        ]
        if own:
            fractions[name] = min(float(np.median(own)), PERFECT)
    about = {"launch": launch, "bandwidth": bandwidth, "fractions": fractions}
    about["calls"] = _calls(rows, bandwidth)
    return {**about, "begun": _speculation(rows)}


def _calls(rows: Sequence[dict[str, Any]], bandwidth: float) -> dict[str, float]:
    """The fraction of a copy that one call of one worker reaches, by case."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.get("one_call"):
            share = 1 if row["case"].startswith("strong") else row["workers"]
            floor = row["traffic"] / share / bandwidth
            found.setdefault(_name_of(row), []).append(floor / row["one_call"])
    return {name: min(float(np.median(own)), PERFECT) for name, own in found.items()}


def _words(case: Case, begins: Any) -> tuple[int, int]:
    """Words of both phases: a speculative chunk is read once."""
    return 0 if begins else case.precompute, case.determine


def _speculation(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the length of the shortest speculative chunks, by case."""
    found: dict[str, int] = {}
    for row in rows:
        if row.get("begins"):
            found[_name_of(row)] = min(row["chunk"], found.get(_name_of(row), row["chunk"]))
    return found


def predict(records: dict[str, dict[str, Any]], chunk: int | None = None) -> dict[str, Any]:
    """Predict every row of the study, for each number of workers, from results by their names.

    The first tells of machine and kernels; ways that it lacks are fitted on the next that has
    them. `chunk` are the steps of a chunk in most parts. A ValueError says that the first record's
    rows are too few, or that the model does not fit them.
    """
    (source, record), *_ = records.items()
    models, measured = {}, kernels(record)
    for name, each in reversed(records.items()):
        models |= {way: {**found, "from": name} for way, found in fit(each).items()}
    usable = {way: each for way, each in models.items() if fits(each)}
    if WAYS[0] not in usable:
        raise ValueError(f"the model fits no rows of {source}: it predicts nothing")
    chunk = chunk or steps_of_chunk("cuda" if record["machine"]["gpus"] else "local", False)
    cells = (cell for cell in _cells() if cell.way in usable)
    rows = [_row(cell, chunk, usable[cell.way], measured) for cell in cells]
    name = re.sub(r"-\d+$", "", record["machine"]["name"])
    return {
        "study": "scaling-predictions",
        "from": ", ".join(records),
        "date": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()),
        "commit": machine.describe_commit(),
        "machine": {"name": name, "gpus": record["machine"]["gpus"][:1]},
        "models": models,
        "kernels": measured,
        "cases": rows,
    }


def fits(found: dict[str, Any]) -> bool:
    return bool(found["errors"]["median"] <= model.WORST)


def _cells() -> list[Cell]:
    found = {cell for count in WORKERS for each in stages(SCALED, count) for cell in each}
    found |= {replace(c, workers=count) for c in found if _is_far(c) for count in FAR}
    names = list(CASES)

    def place(c: Cell) -> tuple[int, ...]:
        part, way = SCALED.index(c.part), WAYS.index(c.way)
        return c.rows, part, names.index(c.name), way, c.workers

    return sorted(found, key=place)


def _is_far(cell: Cell) -> bool:
    return cell.part == SCALED[0] and cell.rows == 1


def _row(cell: Cell, most: int, found: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    chunk, chunks = cell.cut(most)
    case = CASES[cell.name]
    # A case without timed kernels takes those of a case that moves as many words.
    fractions = measured["fractions"]
    fraction = fractions.get(cell.name, fractions.get("constant", PERFECT))
    begins = chunk >= measured["begun"].get(cell.name, chunk + 1)
    alone = model.kernels_of(
        _words(case, begins),
        chunk,
        chunks,
        cell.workers,
        measured["launch"],
        measured["bandwidth"] * fraction,
    )
    steps, share = cell.alone(most)
    reached = measured["calls"].get(cell.name, fraction) * measured["bandwidth"]
    row = {
        "one_call": 4 * case.determine * steps / reached,
        "case": cell.case,
        "candidate": cell.candidate,
        "rows": cell.rows,
        "workers": cell.workers,
        "chunks": chunks,
        "chunk": chunk,
        "kernels": alone,
        **_terms(cell.way, chunks, cell.workers, case.has_states),
    }
    terms = (found[name] for name in ("latency", "asking", "scheduler", "worker", "overlap"))
    seconds = model.Model(*terms).seconds(row)
    efficiency = row["one_call"] / seconds / share
    return {**row, "predicted": seconds, "predicted_efficiency": efficiency}


def newest(folder: Path) -> Path | None:
    """The last predictions in a folder of results."""
    return max(folder.glob("scaling-predictions-*.json"), key=lambda p: p.name[-15:], default=None)


def tables(record: dict[str, Any]) -> str:
    """Markdown of predictions: the models, their errors, and every row."""
    gpus, about = record["machine"]["gpus"], record["kernels"]
    fractions = ", ".join(f"{name} {each:.2f}" for name, each in about["fractions"].items())
    lines = [
        f"# scaling, predicted: {gpus[0] if gpus else record['machine']['name']}, {record['date']}",
        "",
        f"By mgrec {record['commit']}, from {record['from']}, before the run that it is of.",
        "",
        f"- copy bandwidth of one worker, GB/s: {about['bandwidth'] / 1e9:.4g}",
        f"- fraction of it that kernels reach: {fractions}; a case that was not timed is taken as "
        "'constant', which reads and writes as many words",
        f"- milliseconds of the phases of a chunk without steps: {about['launch'] * 1e3:.3g}",
        *(f"- model, {way}: {each}" for way, each in record["models"].items()),
        "",
        f"Seconds are latency + asking (from {model.FEW} chunks on) + longer",
        "+ (1 - overlap) * shorter, of",
        "(kernels + worker * tasks / workers) and (scheduler * tasks).",
        "",
        "| case | candidate | chunks | kernels, ms | predicted ms | efficiency |",
        "|---" * 6 + "|",
    ]
    for row in record["cases"]:
        times = f"{row['kernels'] * 1e3:.2f} | {row['predicted'] * 1e3:.1f}"
        cut = f"{row['chunks']} of {row['chunk']:,}"
        lines.append(
            f"| {row['case']} | {row['candidate']} | {cut} | {times} | {row['predicted_efficiency']:.2f} |"
        )
    return "\n".join(lines) + "\n"

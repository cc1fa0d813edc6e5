"""Rows of a scaling study, what it writes of them, and a small study."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest


def test_the_most_important_rows_come_first_and_each_comes_once(load: Any) -> None:
    cases = load("dask.scaling.cases")
    stages = cases.stages(cases.SCALED, 8)
    assert {(cell.part, cell.rows, cell.workers) for cell in stages[0]} == {("bar", 1, 1), ("bar", 1, 8)}
    cells = [cell for stage in stages for cell in stage]
    assert len(set(cells)) == len(cells)
    shapes = {(cell.part, cell.rows, cell.workers) for cell in cells}
    assert shapes == set(itertools.product(cases.SCALED, (1, 64), (1, 2, 4, 8)))
    assert cases.counts(6) == [1, 2, 4, 6]


@pytest.mark.parametrize(
    ("part", "workers", "cut", "alone"),
    [
        ("bar", 8, (1 << 30, 32), (1 << 32, 1)),
        ("bar, long chunks", 8, (1 << 31, 16), None),
        ("bar, short chunks", 2, (1 << 28, 32), None),
        ("weak", 4, (1 << 30, 4), None),
        ("strong", 1, (1 << 30, 4), None),
        ("strong", 4, (1 << 30, 4), (1 << 32, 4)),
        ("strong", 8, (1 << 29, 8), None),
        ("half", 2, (1 << 29, 8), (1 << 31, 1)),
    ],
)
def test_every_worker_has_a_chunk_and_rows_are_held_against_one_call(
    load: Any, part: str, workers: int, cut: Any, alone: Any
) -> None:
    cases = load("dask.scaling.cases")
    cell, chunk = cases.Cell(part, 1, workers, "arrays"), cases.steps_of_chunk("cuda", False)
    assert cell.cut(chunk) == cut
    assert alone in (None, cell.alone(chunk))


def test_a_study_ends_in_time(load: Any) -> None:
    cases = load("dask.scaling.cases")
    budget = cases.Budget(1.0)
    assert budget.allows("rows", 10.0)
    assert not budget.allows("rows", 100.0)
    budget.spend("rows", 59.0)
    assert not budget.allows("rows", 1.0)
    assert cases.Budget(None).allows("rows", 1e9)


def measured(workers: int, name: str, rows: int = 1) -> dict[str, Any]:
    shape = "one sequence" if rows == 1 else f"{rows} rows"
    times = {"median": 0.05, "min": 0.04, "max": 0.06, "repetitions": 3}
    terms = {"kernels": 0.025, "dask": 0.025, "copy_fraction": 0.2, "efficiency": 0.75, "bytes_across": 7}
    cut = {"rows": rows, "workers": workers, "chunks": 4, "chunk": 1 << 30, "steps": 1 << 32}
    case = {"case": f"{name}, {shape}, arrays", "candidate": f"{workers} workers"}
    return {**case, **times, **terms, **cut}


def test_a_table_has_a_line_for_each_row(load: Any, tmp_path: Path) -> None:
    study = load("harness.study").Study("scaling")
    study.bandwidth, study.calibrations = 1e12, [1.0]
    study.cases += [measured(2, "weak"), measured(2, "bar, short chunks"), measured(1, "bar")]
    path = load("dask.scaling.files").keep(study, "tests", tmp_path)
    assert [each.suffix for each in sorted(tmp_path.iterdir())] == [".json", ".md"]
    assert json.loads(path.read_text())["cases"] == study.cases
    lines = path.with_suffix(".md").read_text().splitlines()
    own = [line for line in lines if ", one sequence, arrays" in line]
    assert own[0] == (
        "| bar, one sequence, arrays | 1 | 4 of 1,073,741,824 | 50 | 40 | 60 | 25 | 25 | 0.20 | 0.75 | 7 |"
    )
    assert [line.split(", one")[0] for line in own] == ["| bar", "| weak", "| bar, short chunks"]


@pytest.mark.extended
@pytest.mark.slow
def test_a_small_study_from_end_to_end(load: Any, tmp_path: Path) -> None:
    study = load("dask.scaling.__main__")
    given = ["--small", "--minutes", "30", "--out", str(tmp_path)]
    study.main(study.parser.parse_args(given))
    (path,) = tmp_path.glob("scaling-small-*.json")
    record = json.loads(path.read_text())
    assert not record["not_measured"]
    cases = {each["case"] for each in record["cases"]}
    for how in ("bar", "bar, long chunks", "bar, short chunks", "strong", "weak", "half"):
        for rows in ("one sequence", "64 rows"):
            assert f"{how}, {rows}, arrays" in cases
    scaled = [each for each in record["cases"] if "efficiency" in each]
    assert {each["workers"] for each in scaled} == {1, 2}
    assert all(each["bytes_across"] < 3000 * each["chunks"] for each in scaled)
    assert not any(each["operand_bytes_across"] for each in scaled)
    assert all(each["kernels"] > 0 for each in scaled)
    for each in scaled:
        share = each["workers"] if each["case"].startswith("strong") else 1
        wanted = each["one_call"] / each["median"] / share
        assert each["efficiency"] == pytest.approx(wanted, rel=1e-3)

"""The rows of a scaling study, in their order, and a small study from end to end."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
BENCHMARKS = Path(__file__).parents[4] / "benchmarks"


def test_the_most_important_rows_come_first_and_each_comes_once(load: Any) -> None:
    cases = load("dask.scaling.cases")
    stages = cases.stages(cases.SCALED, 8)
    assert {(cell.part, cell.rows, cell.workers) for cell in stages[0]} == {
        ("bar", 1, 1),
        ("bar", 1, 8),
    }
    cells = [cell for stage in stages for cell in stage]
    assert len(set(cells)) == len(cells)
    shapes = {(cell.part, cell.rows, cell.workers) for cell in cells}
    assert shapes == set(itertools.product(cases.SCALED, (1, 64), (1, 2, 4, 8)))
    assert cases.counts(6) == [1, 2, 4, 6]


@pytest.mark.parametrize(
    ("part", "workers", "cut"),
    [
        ("bar", 8, (1 << 30, 32)),
        ("bar, long chunks", 8, (1 << 31, 16)),
        ("bar, short chunks", 2, (1 << 28, 32)),
        ("weak", 4, (1 << 30, 4)),
        ("strong", 1, (1 << 30, 4)),
        ("strong", 8, (1 << 29, 8)),
        ("half", 2, (1 << 29, 8)),
    ],
)
def test_every_worker_has_a_chunk(load: Any, part: str, workers: int, cut: Any) -> None:
    cases = load("dask.scaling.cases")
    cell = cases.Cell(part, 1, workers, "arrays")
    assert cell.cut(cases.sizes("cuda", False)) == cut


@pytest.mark.parametrize(
    ("part", "workers", "alone"),
    [("bar", 8, (1 << 32, 1)), ("half", 2, (1 << 31, 1)), ("strong", 4, (1 << 32, 4))],
)
def test_rows_are_held_against_one_call_of_one_worker(
    load: Any, part: str, workers: int, alone: Any
) -> None:
    cases = load("dask.scaling.cases")
    cell = cases.Cell(part, 1, workers, "arrays")
    assert cell.alone(cases.sizes("cuda", False)) == alone


def test_a_study_ends_in_time(load: Any) -> None:
    cases = load("dask.scaling.cases")
    budget = cases.Budget(1.0)
    assert budget.allows("rows", 10.0)
    assert not budget.allows("rows", 100.0)
    budget.spend("rows", 59.0)
    assert not budget.allows("rows", 1.0)
    assert cases.Budget(None).allows("rows", 1e9)


@pytest.mark.extended
@pytest.mark.slow
def test_a_small_study_from_end_to_end(load: Any, tmp_path: Path) -> None:
    study = load("dask.scaling.__main__")
    given = ["--small", "--minutes", "30", "--out", str(tmp_path)]
    study.main(study.parser.parse_args(given))
    (path,) = tmp_path.glob("scaling-small-*.json")
    record = json.loads(path.read_text())
    assert {each["case"] for each in record["not_measured"]} <= {"predictions"}
    cases = {each["case"] for each in record["cases"]}
    for how in ("bar", "bar, long chunks", "bar, short chunks", "strong", "weak", "half"):
        for rows in ("one sequence", "64 rows"):
            assert f"{how}, {rows}, arrays" in cases
    scaled = [each for each in record["cases"] if "efficiency" in each]
    assert {each["workers"] for each in scaled} == {1, 2}
    assert all(each["bytes_across"] < 3000 * each["chunks"] for each in scaled)
    assert not any(each["operand_bytes_across"] for each in scaled)
    assert all(each["kernels"] > 0 for each in scaled)
    count, known = load("dask.scaling.model").tasks, load("dask.scaling.cases").CASES
    for each in scaled:
        name = next(name for name in known if each["case"].endswith(f", {name}"))
        cut = each["chunks"], each["workers"], known[name].has_states
        assert each["tasks"] == count(*cut)
        share = each["workers"] if each["case"].startswith("strong") else 1
        wanted = each["one_call"] / each["median"] / share
        assert each["efficiency"] == pytest.approx(wanted, rel=1e-3)
    assert record["notes"]["model"]["graph"]["errors"]["median"] >= 0
    (stream,) = (each["spans"] for each in record["cases"] if each["case"] == "task stream")
    assert {"precompute", "determine"} <= {span["task"] for span in stream}
    figure = load("dask.scaling.picture").draw(record)
    load("harness.records").draw_small(figure, path.with_suffix(".png"))
    assert path.with_suffix(".png").stat().st_size > 1000

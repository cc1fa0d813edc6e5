"""Rows of a scaling study, what it writes and draws of them, and a small study."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")


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
    terms = {"kernels": 0.025, "dask": 0.025, "copy_fraction": 0.2, "bytes_across": 7}
    found = {"predicted": 0.048, "predicted_efficiency": 0.8, "efficiency": 0.75}
    cut = {"rows": rows, "workers": workers, "chunks": 4, "chunk": 1 << 30, "steps": 1 << 32}
    case = {"case": f"{name}, {shape}, arrays", "candidate": f"{workers} workers"}
    return {**case, **times, **terms, **found, **cut}


def test_predictions_stand_beside_measurements(load: Any, tmp_path: Path) -> None:
    study = load("harness.study").Study("scaling")
    study.bandwidth, study.calibrations = 1e12, [1.0]
    study.cases += [measured(2, "weak"), measured(2, "bar, short chunks"), measured(1, "bar")]
    path = load("dask.scaling.files").keep(study, "tests", tmp_path)
    assert [each.suffix for each in sorted(tmp_path.iterdir())] == [".json", ".md"]
    assert json.loads(path.read_text())["cases"] == study.cases
    lines = path.with_suffix(".md").read_text().splitlines()
    own = [line for line in lines if ", one sequence, arrays" in line]
    assert own[0] == (
        "| bar, one sequence, arrays | 1 | 4 of 1,073,741,824 | 50 | 40 | 60 | 48 "
        "| 25 | 25 | 0.20 | 0.75 | 0.80 | 7 |"
    )
    assert [line.split(", one")[0] for line in own] == ["| bar", "| weak", "| bar, short chunks"]


@pytest.mark.parametrize("workers", [(1, 2), (1, 2, 4, 8)])
def test_a_picture_has_a_line_for_each_case(load: Any, workers: tuple[int, ...]) -> None:
    cells = itertools.product(workers, ("bar", "weak"), (1, 64))
    cases = [measured(k, part, rows) for k, part, rows in cells]
    figure = load("dask.scaling.picture").draw({"cases": cases})
    titles = [axes.get_title() for axes in figure.axes[::2]]
    assert titles == ["bar: chunks of 2^30", "weak: chunks of 2^30"]
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [str(k) for k in workers]
        drawn = [line for line in axes.lines if list(line.get_xdata()) == list(workers)]
        assert len(drawn) == 3


@pytest.mark.parametrize(("milliseconds", "is_drawn"), [(40.0, True), (2200.0, False)])
def test_tasks_of_a_solve_that_compiled_are_not_drawn(
    load: Any, capsys: Any, milliseconds: float, is_drawn: bool
) -> None:
    span = {"worker": 0, "action": "compute", "task": "determine", "start": 0.0}
    seconds = dict.fromkeys(("median", "min", "max"), milliseconds / 1e3)
    stream = {"case": "task stream", "candidate": "mgrec", **seconds}
    stream["spans"] = [{**span, "stop": milliseconds}]
    figure = load("dask.scaling.picture").draw({"cases": [measured(1, "bar"), stream]})
    titles = [axes.get_title() for axes in figure.axes]
    assert ("tasks of one solve (red: transfers)" in titles) == is_drawn
    told = capsys.readouterr().out
    assert ("lasts 2200 ms, and the slowest measured solve 50 ms" in told) != is_drawn


def test_predictions_are_drawn_without_measurements(load: Any) -> None:
    times = ("median", "min", "max", "repetitions", "efficiency")
    rows = [measured(workers, "bar") for workers in (1, 8)]
    rows = [{key: value for key, value in row.items() if key not in times} for row in rows]
    drawn = [
        line
        for axes in load("dask.scaling.picture").draw({"cases": rows}).axes
        for line in axes.lines
        if len(line.get_xdata()) == 2
    ]
    dotted = [list(line.get_ydata()) for line in drawn if line.get_linestyle() == ":"]
    assert dotted == [[0.8, 0.8], [48.0, 48.0]]


def test_what_was_never_measured_is_not_drawn(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    picture = load("dask.scaling.picture")
    monkeypatch.setattr(picture, "RESULTS", tmp_path)
    predicted = measured(8, "bar")
    ways = [predicted, {**predicted, "candidate": "8 workers, solve"}]
    (tmp_path / "predictions.json").write_text(json.dumps({"cases": ways}))
    record = {"cases": [measured(1, "bar")], "notes": {"predictions": "predictions.json"}}
    assert picture._of_more_workers(record, record["cases"]) == [predicted]
    (legend,) = picture.draw(record).legends
    assert "solve" not in [text.get_text() for text in legend.texts]


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

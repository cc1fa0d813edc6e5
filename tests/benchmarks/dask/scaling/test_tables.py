"""What a scaling study writes and draws of its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")


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
    rows = [
        measured(k, part, rows) for k in workers for part in ("bar", "weak") for rows in (1, 64)
    ]
    figure = load("dask.scaling.picture").draw({"cases": rows})
    assert [axes.get_title() for axes in figure.axes[::2]] == [
        "bar: chunks of 2^30",
        "weak: chunks of 2^30",
    ]
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [str(k) for k in workers]
        drawn = [line for line in axes.lines if len(line.get_xdata()) == len(workers)]
        assert len([line for line in drawn if list(line.get_xdata()) == list(workers)]) == 3


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
    first, second = load("dask.scaling.picture").draw({"cases": rows}).axes
    drawn = [line for axes in (first, second) for line in axes.lines if len(line.get_xdata()) == 2]
    assert [list(line.get_ydata()) for line in drawn if line.get_linestyle() == ":"] == [
        [0.8, 0.8],
        [48.0, 48.0],
    ]


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

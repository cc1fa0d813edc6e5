"""The scaling study on a small cluster, its model, and its simulated scheduler."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mgrec.cli import bench, main

pytest.importorskip("matplotlib")
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


RESULTS = BENCHMARKS / "results"
TWO = RESULTS / "scaling-h200-2-2026-11-22.json"


def rows_like(model: Any, known: Any, noise: float = 0.0) -> list[dict[str, Any]]:
    """Rows as the model says, some bound by kernels and some by the scheduler."""
    found = []
    for number, (workers, each, kernels) in enumerate(
        itertools.product((1, 2, 4), (1, 4, 16, 64), (0.001, 0.03, 0.3))
    ):
        chunks = each * workers
        tasks, is_asking = model.tasks(chunks, workers), chunks >= model.FEW
        row = {"kernels": kernels, "tasks": tasks, "workers": workers, "is_asking": is_asking}
        found.append({**row, "median": known.seconds(row) * (1 + noise * (number % 7))})
    return found


def test_a_model_is_found_again(load: Any) -> None:
    model = load("dask.scaling.model")
    known = model.Model(0.02, 0.005, 0.001, 0.0005, 0.5)
    rows = rows_like(model, known)
    fitted = model.fit(rows)
    assert model.describe(fitted) == pytest.approx(model.describe(known), rel=1e-3)
    assert model.errors_of(fitted, rows)["worst"] < 1e-5


def test_a_model_shows_that_it_does_not_fit(load: Any) -> None:
    model = load("dask.scaling.model")
    rows = rows_like(model, model.Model(0.02, 0.005, 0.001, 0.0005, 0.5), noise=2.0)
    errors = model.errors_of(model.fit(rows), rows)
    assert errors["median"] > model.WORST
    assert not load("dask.scaling.predictions").fits({"errors": errors})


def test_terms_of_a_model_are_not_negative(load: Any) -> None:
    model = load("dask.scaling.model")
    rows = rows_like(model, model.Model(0.5, 0.0, -0.0005, 0.0, 0.0))
    fitted = model.fit(rows)
    assert min(model.describe(fitted).values()) >= 0
    assert model.errors_of(fitted, rows)["worst"] > 0.01


def test_kernels_hide_the_scheduler_or_the_scheduler_them(load: Any) -> None:
    model = load("dask.scaling.model")
    row = {"kernels": 0.3, "tasks": 100, "workers": 4, "is_asking": False}
    for overlap, seconds in ((1.0, 0.3), (0.0, 0.4), (0.5, 0.35)):
        assert model.Model(0.0, 9.0, 0.001, 0.0, overlap).seconds(row) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("chunks", "workers", "tasks"),
    # Determinations, precomputations (the last chunk has none, 16 chunks or more go in runs),
    # and a propagation for each 128 chunks.
    [(1, 1, 1 + 0 + 1), (8, 2, 8 + 7 + 1), (16, 4, 16 + 4 + 1), (256, 2, 256 + 8 + 2)],
)
def test_tasks_of_a_graph_are_counted(load: Any, chunks: int, workers: int, tasks: int) -> None:
    assert load("dask.scaling.model").tasks(chunks, workers) == tasks


def test_only_one_worker_saves_a_precomputation(load: Any) -> None:
    model = load("dask.scaling.model")
    one, two = (model.kernels_of((2, 3), 10, 4 * n, n, 1.0, 4.0) for n in (1, 2))
    assert two == 4 * 1.0 + 10 * (4 * 2 + 4 * 3)
    assert one == two - 10 * 2


def test_two_gpus_predict_more(load: Any) -> None:
    predictions, record = load("dask.scaling.predictions"), json.loads(TWO.read_text())
    found = predictions.predict({TWO.name: record})
    model = found["models"]["graph"]
    # No faster than the memory of the GPU: 4.8 TB/s.
    assert found["kernels"]["bandwidth"] < 4.8e12
    assert max(found["kernels"]["fractions"].values()) <= 1
    unseen = next(each for name, each in model.items() if "left out" in name)
    assert unseen["median"] < 0.15
    rows = {(row["case"], row["candidate"]): row for row in found["cases"]}
    assert len(rows) == len(found["cases"])
    for workers in (1, 2, 4, 8, 64, 1024):
        own = rows["bar, one sequence, arrays", f"{workers} workers"]
        assert own["predicted"] > own["kernels"] * model["overlap"]
        assert own["predicted_efficiency"] <= 1
        assert f"{own['predicted'] * 1e3:.1f} |" in predictions.tables(found)


def test_every_row_of_eight_gpus_was_predicted(load: Any) -> None:
    model, cases = load("dask.scaling.model"), load("dask.scaling.cases")
    written = json.loads(load("dask.scaling.predictions").newest(RESULTS).read_text())
    found = {(row["case"], row["candidate"]): row for row in written["cases"]}
    for cell in itertools.chain.from_iterable(cases.stages(cases.SCALED, 8)):
        row, terms = found[cell.case, cell.candidate], dict(written["models"][cell.way])
        known = model.Model(*(terms[each.name] for each in dataclasses.fields(model.Model)))
        # Files hold five digits of a time.
        assert known.seconds(row) == pytest.approx(row["predicted"], rel=1e-4)


def test_a_model_that_does_not_fit_predicts_nothing(load: Any) -> None:
    record = json.loads(TWO.read_text())
    for number, row in enumerate(record["cases"]):
        row["median"] *= 1 + 3 * (number % 5)
    with pytest.raises(ValueError, match="it predicts nothing"):
        load("dask.scaling.predictions").predict({TWO.name: record})


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
    ],
)
def test_every_worker_has_a_chunk(load: Any, part: str, workers: int, cut: Any) -> None:
    cases = load("dask.scaling.cases")
    cell = cases.Cell(part, 1, workers, "arrays")
    assert cell.cut(cases.sizes("cuda", False)) == cut


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


def test_a_simulated_scheduler_runs_every_task_where_its_chunk_is(load: Any) -> None:
    found = load("dask.scaling.simulation").simulate(300, workers=7)
    # 300 determinations, 3 propagations, and precomputations of runs of one worker and group.
    first, second, third = [32, 11, 32, 11, 32, 10], [1, 32, 11, 32, 11, 32, 9], [2, 32, 10]
    assert found["tasks"] == 300 + 3 + len(first + second + third)
    assert found["apart"] == 0


@pytest.mark.extended
@pytest.mark.slow
def test_a_small_study_from_end_to_end(
    load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "STUDIES", BENCHMARKS)  # which an installed package lacks
    command = ["bench", "scaling", "--small", "--minutes", "30", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.glob("scaling-small-*.json")
    record = json.loads(path.read_text())
    assert {each["case"] for each in record["not_measured"]} <= {"predictions"}
    cases = {each["case"] for each in record["cases"]}
    for how in ("bar", "bar, long chunks", "bar, short chunks", "strong", "weak"):
        for rows in ("one sequence", "64 rows"):
            assert f"{how}, {rows}, arrays" in cases
    scaled = [each for each in record["cases"] if "efficiency" in each]
    assert {each["workers"] for each in scaled} == {1, 2}
    assert all(each["bytes_across"] < 3000 * each["chunks"] for each in scaled)
    assert not any(each["operand_bytes_across"] for each in scaled)
    assert all(each["kernels"] > 0 for each in scaled)
    count = load("dask.scaling.model").tasks
    assert all(each["tasks"] == count(each["chunks"], each["workers"]) for each in scaled)
    assert record["notes"]["model"]["graph"]["errors"]["median"] >= 0
    (stream,) = (each["spans"] for each in record["cases"] if each["case"] == "task stream")
    assert {"precompute", "determine"} <= {span["task"] for span in stream}
    figure = load("dask.scaling.picture").draw(record)
    load("harness.records").draw_small(figure, path.with_suffix(".png"))
    assert path.with_suffix(".png").stat().st_size > 1000


def test_the_studies_need_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "STUDIES", tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling"])
    assert result.exit_code != 0
    assert "clone of the repository" in result.output

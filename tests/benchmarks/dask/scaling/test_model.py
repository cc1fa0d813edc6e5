"""The model of Dask's share, what it predicts, and the simulated scheduler."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[4] / "benchmarks" / "results"
TWO = RESULTS / "scaling-h200-2-2026-11-24.json"


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


KNOWN = (0.02, 0.005, 0.001, 0.0005, 0.5)


def test_a_model_is_found_again_or_shows_that_it_does_not_fit(load: Any) -> None:
    model = load("dask.scaling.model")
    known = model.Model(*KNOWN)
    rows = rows_like(model, known)
    fitted = model.fit(rows)
    assert model.describe(fitted) == pytest.approx(model.describe(known), rel=1e-3)
    assert model.errors_of(fitted, rows)["worst"] < 1e-5
    rows = rows_like(model, known, noise=2.0)
    errors = model.errors_of(model.fit(rows), rows)
    assert errors["median"] > model.WORST
    assert not load("dask.scaling.predictions").fits({"errors": errors})
    # No term of a model is negative.
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
    # Determinations, precomputations (the last chunk has none, 6 chunks or more go in runs),
    # and a propagation for each 128 chunks.
    [(1, 1, 1 + 0 + 1), (5, 2, 5 + 4 + 1), (16, 4, 16 + 4 + 1), (256, 2, 256 + 8 + 2)],
)
def test_tasks_of_a_graph_are_counted(load: Any, chunks: int, workers: int, tasks: int) -> None:
    count = load("dask.scaling.model").tasks
    assert count(chunks, workers) == tasks
    assert count(chunks, workers, has_states=False) == (tasks if chunks > 1 else 1)


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
        assert own["one_call"] < own["kernels"]
        assert f"{own['predicted'] * 1e3:.1f} |" in predictions.tables(found)


def test_every_row_of_eight_gpus_was_predicted(load: Any) -> None:
    model, cases = load("dask.scaling.model"), load("dask.scaling.cases")
    written = json.loads(load("dask.scaling.predictions").newest(RESULTS).read_text())
    found = {(row["case"], row["candidate"]): row for row in written["cases"]}
    parts = [part for part in cases.SCALED if part != cases.HALF]  # it came later
    for cell in itertools.chain.from_iterable(cases.stages(parts, 8)):
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


def test_a_simulated_scheduler_runs_every_task_where_its_chunk_is(load: Any) -> None:
    found = load("dask.scaling.simulation").simulate(300, workers=7)
    # 300 determinations, 3 propagations, and precomputations of runs of one worker and group.
    first, second, third = [32, 11, 32, 11, 32, 10], [1, 32, 11, 32, 11, 32, 9], [2, 32, 10]
    assert found["tasks"] == 300 + 3 + len(first + second + third)
    assert found["apart"] == 0

"""The scaling study on a small cluster, its model, and its simulated scheduler."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mgrec.cli import bench, main

pytest.importorskip("matplotlib")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def row(workers: int, tasks: int, traffic: float, model: dict[str, float]) -> dict[str, Any]:
    seconds = model["latency"] + model["task"] * tasks + traffic / workers / model["bandwidth"]
    return {"median": seconds, "workers": workers, "tasks": tasks, "bytes": traffic}


def test_a_model_is_found_again(load: Any) -> None:
    scaling = load("scaling_model")
    known = {"latency": 0.02, "task": 0.001, "bandwidth": 2e12}
    rows = [row(w, t, b, known) for w in (1, 2) for t in (4, 64) for b in (1e10, 1e12)]
    fitted = scaling.fit(rows)
    for name, value in known.items():
        assert fitted[name] == pytest.approx(value, rel=1e-6)
    assert fitted["median_error"] < 1e-9
    assert scaling.predict(fitted, 8, 10, 1e12) == pytest.approx(0.02 + 0.01 + 1 / 16)


def test_terms_of_a_model_are_not_negative(load: Any) -> None:
    falling = {"latency": 0.5, "task": -0.001, "bandwidth": 1e12}
    rows = [row(w, t, 1e10, falling) for w in (1, 2) for t in (4, 64, 100)]
    fitted = load("scaling_model").fit(rows)
    assert min(fitted["latency"], fitted["task"], fitted["bandwidth"]) >= 0
    assert fitted["median_error"] > 0


def test_weak_scaling_is_predicted_for_a_thousand_workers(load: Any) -> None:
    model = {"latency": 0.02, "task": 0.001, "bandwidth": 2e12}
    found = load("scaling_model").predictions(model, 1 << 30)
    assert list(found) == ["1", "2", "8", "64", "1024"]
    efficiencies = [each["efficiency"] for each in found.values()]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert efficiencies[0] == 1


def test_a_simulated_scheduler_runs_every_task_where_its_chunk_is(load: Any) -> None:
    found = load("scaling_simulation").simulate(300, workers=7)
    # 300 determinations, 3 propagations, and 16 + 16 + 6 precomputations.
    assert found["tasks"] == 300 + 3 + 38
    assert found["apart"] == 0


@pytest.mark.extended
@pytest.mark.slow
def test_a_small_study_from_end_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "STUDIES", BENCHMARKS)  # which an installed package lacks
    command = ["bench", "scaling", "--small", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.glob("scaling-small-*.json")
    record = json.loads(path.read_text())
    assert {each["case"] for each in record["not_measured"]} <= {"predictions"}
    cases = {each["case"] for each in record["cases"]}
    for how in ("strong", "weak"):
        for rows in ("one sequence", "64 rows"):
            assert f"{how}, {rows}, arrays" in cases
    scaled = [each for each in record["cases"] if "efficiency" in each]
    assert {each["workers"] for each in scaled} == {1, 2}
    assert all(each["bytes_across"] < 2000 * each["chunks"] for each in scaled)
    assert record["notes"]["model"]["median_error"] >= 0
    (stream,) = (each["spans"] for each in record["cases"] if each["case"] == "task stream")
    assert {"precompute", "determine"} <= {span["task"] for span in stream}
    draw(path)


def draw(path: Path) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        record = importlib.import_module("record")
        picture = importlib.import_module("scaling_picture")
        record.draw_small(picture.draw(json.loads(path.read_text())), path.with_suffix(".png"))
    finally:
        sys.path.remove(str(BENCHMARKS))
    assert path.with_suffix(".png").stat().st_size > 1000


def test_the_studies_need_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "STUDIES", tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling"])
    assert result.exit_code != 0
    assert "clone of the repository" in result.output

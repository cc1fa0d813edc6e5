"""What the study of the papers makes of its times; its kernels have tests of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
FOLDER = "papers.pogorelskih_2019"
# Nanoseconds an unknown.
SPEEDS = {"Thomas, shared memory": 0.02, "Thomas, global memory": 0.1, "CPU Thomas": 5.0}


def row(part: str, candidate: str, speed: float, **about: int) -> dict[str, Any]:
    steps = about["systems"] * about["rows"]
    seconds = speed * 1e-9 * steps
    times = {"median": seconds, "min": seconds, "max": seconds, "repetitions": 3}
    return {"case": "", "candidate": candidate, "part": part, "steps": steps, **times, **about}


def rows(printed: Any) -> list[dict[str, Any]]:
    """A row of every candidate that a GPU has."""
    names = [*SPEEDS, printed.AGAIN, printed.AGAIN_GLOBAL, printed.STORED, printed.STORED_GLOBAL]
    names += [printed.PART, printed.ALL, printed.NONE, printed.REDUCTION, printed.CPU_SERICR]
    found = [
        row("batch", name, SPEEDS.get(name, 0.5), systems=count, rows=printed.ROWS)
        for name in [*names, printed.AUTO]
        for count in printed.COUNTS
    ]
    for name in (printed.THOMAS, printed.PCR, printed.P_SCHEME, printed.AUTO, printed.CPU_THOMAS):
        found += [row("single", name, 2, systems=1, rows=2**q - 1) for q in (12, 20)]
    return found


def record_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "study": "papers", "date": "2026-11-24", "commit": "none", "memory": "the device",
        "machine": {"gpus": ["a GPU"], "processor": "a CPU", "name": "here"}, "cases": found,
        "load": {"quiet": True}, "copy_bandwidth": 1e12,
        "not_measured": [{"case": "one", "candidate": "Thomas", "reason": "no time was left"}],
    }  # fmt: skip


def test_figures_stand_beside_the_papers(load: Any) -> None:
    text = load(f"{FOLDER}.report").tables(record_of(rows(load(f"{FOLDER}.printed"))))
    # Table 1: 5 / 0.02 and 5 / 0.1 beside what is printed; table 4: 0.02 ns · 5,000 · 4,095.
    assert "| 5,000 | 2.19 | 250 | 1.68 | 50 |" in text
    assert "| 25,000 | - | 250 | - | 50 |" in text
    assert "| 5,000 | 0.09 | 0.00041 |" in text
    assert "Shared memory makes Thomas 5 times as fast here, 1.47 times in the paper" in text
    assert "not measured, because no time was left" in text
    assert not {"None", "nan"} & set(text.split())
    assert text.count("here, ") >= 6
    assert "with a thread" not in text
    assert "Thomas is 25 times as fast as PARACR" in " ".join(text.split())


def test_it_is_drawn_with_all_rows_and_with_none(load: Any, tmp_path: Path) -> None:
    draw, draw_small = load(f"{FOLDER}.drawing").draw, load("harness.records").draw_small
    for found in (rows(load(f"{FOLDER}.printed")), []):
        draw_small(draw(record_of(found)), tmp_path / "plot.png")
        assert (tmp_path / "plot.png").stat().st_size > 1000
    assert "##" not in load(f"{FOLDER}.report").tables(record_of([]))


@pytest.mark.extended
def test_it_runs_without_a_gpu(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGREC_NUM_THREADS", "1")  # as the study sets it
    command = load(f"{FOLDER}.__main__")
    path = command.PAPER.write(command.on_cpu((3, 4), 31, 8).record("here"), tmp_path)
    command.PAPER.main(["--plot", str(path)])
    text = path.with_suffix(".md").read_text()
    assert "| ns an unknown, by systems | 3 | 4 |" in text
    assert "| mgrec p-scheme |" in text
    assert path.with_suffix(".png").stat().st_size > 1000


@pytest.mark.gpu
def test_all_candidates_agree_on_a_gpu(load: Any) -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")
    study = load("harness.study").Study("study")
    gpu, measure = load(f"{FOLDER}.gpu"), load(f"{FOLDER}.measure")
    measure.systems(study, gpu, "batch", 40, 255)
    for rows in (255, 8191):
        measure.systems(study, gpu, "single", 1, rows)
    assert study.missing == []
    assert len(study.cases) == 11 + 2 * 6

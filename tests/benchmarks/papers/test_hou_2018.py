"""What the study of Hou, Wang and Feng makes of its times; its calls have tests of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
FOLDER = "papers.hou_2018"
# Milliseconds with 2^8 and with 2^15 rows.
SPEEDS = {
    "compensation": (1.0, 8.0), "tiles": (3.0, 2.0), "hyperplane": (6.0, 7.0), "hybrid": (1.1, 2.0)
}  # fmt: skip


def row(part: str, candidate: str, seconds: float, **about: Any) -> dict[str, Any]:
    times = {"median": seconds, "min": seconds, "max": seconds, "repetitions": 3}
    return {"case": "", "candidate": candidate, "part": part, "bytes": 1e9, **times, **about}


def rows(report: Any) -> list[dict[str, Any]]:
    found = []
    for part in report.LOOPS:
        for candidate, times in SPEEDS.items():
            for power, milliseconds in zip((8, 15), times, strict=True):
                shape = {"rows": 2**power, "columns": 2 ** (23 - power)}
                picked = "tiles" if power == 15 else "compensation"
                found.append(row(part, candidate, milliseconds / 1e3, picked=picked, **shape))
    for part in report.PAIRS:
        for candidate, speed in (("weighted_scan", 2), ("inclusive", 1), ("a library", 5)):
            found += [row(part, candidate, speed * size / 1e9, size=size) for size in (1024, 4096)]
    return found


def record_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "study": "paper", "date": "2026-11-24", "commit": "none", "memory": "the device",
        "machine": {"gpus": ["a GPU"], "processor": "a CPU", "name": "here"}, "cases": found,
        "load": {"quiet": True}, "copy_bandwidth": 2e12,
        "not_measured": [{"case": "one", "candidate": "sor", "reason": "there is none"}],
    }  # fmt: skip


def test_strategies_stand_beside_each_other(load: Any) -> None:
    report = load(f"{FOLDER}.report")
    text = report.tables(record_of(rows(report)))
    assert "| 256 x 32,768 | 1 | 3 | 6 | 1.1 | compensation | 0.455 |" in text
    assert "| 32,768 x 256 | 8 | 2 | 7 | 2 | tiles | 0.250 |" in text
    assert "3 times as fast as tiles with 256 rows and 0.25 times with 32,768" in text
    assert "Hyperplanes take 2 to 3.5 times as long as tiles" in text
    assert "at most 1.1 times as long as the better of both" in text
    assert "| 4,096 | 2 | 1 | 5 |" in text
    assert "5 times as fast as a library in the median" in " ".join(text.split())
    assert "sor: not measured, because there is none" in text
    assert "What agrees" not in text  # no function of mgrec's own stands beside the strategies


def test_it_says_what_it_comes_to(load: Any) -> None:
    report = load(f"{FOLDER}.report")
    own = [
        row(part, "own", 0.5 * seconds, rows=2**power, columns=2 ** (23 - power))
        for part in report.LOOPS
        for power, seconds in ((8, 1.1e-3), (15, 2e-3))
    ]
    text = " ".join(report.tables(record_of(rows(report) + own)).split())
    assert "SAT: compensation wins in 1 of 2 shapes, and `own`" in text
    assert "is 2 times as fast as the hybrid" in text


def test_it_is_drawn_with_all_rows_and_with_none(load: Any, tmp_path: Path) -> None:
    draw, draw_small = load(f"{FOLDER}.drawing").draw, load("harness.records").draw_small
    report = load(f"{FOLDER}.report")
    for found in (rows(report), []):
        draw_small(draw(record_of(found)), tmp_path / "plot.png")
        assert (tmp_path / "plot.png").stat().st_size > 1000
    assert "##" not in report.tables(record_of([]))


def test_what_deviates_is_not_measured(load: Any) -> None:
    measure, np = load(f"{FOLDER}.measure"), pytest.importorskip("numpy")
    wanted = np.arange(9.0)
    measure.require_near(wanted + 1e-5, wanted)
    with pytest.raises(ArithmeticError, match=r"deviates from the loop by 0\.12"):
        measure.require_near(wanted + 1, wanted)


@pytest.mark.extended
def test_it_runs_without_a_gpu(load: Any, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    command = load(f"{FOLDER}.__main__")
    study = command.on_cpu(8, range(3, 5), range(6, 9, 2))
    path = command.PAPER.write(study.record("here"), tmp_path)
    command.PAPER.main(["--plot", str(path)])
    text = path.with_suffix(".md").read_text()
    assert "| 8 x 32 |" in text
    assert "| tiles |" in text
    assert path.with_suffix(".png").stat().st_size > 1000

"""What the CUDA studies make of their results; the measuring itself needs a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")


def row(case: str, candidate: str, median: float, **about: Any) -> dict[str, Any]:
    times = {"median": median, "min": median, "max": median, "repetitions": 3}
    size = {"steps": 1024, "bytes": 12288, "fraction": 0.5, "timed_by": "device"}
    return {"case": case, "candidate": candidate, **times, **size, **about}


ROWS = [
    row("2^10", "mgrec kernel", 2e-6, same_bits=True),
    row("2^10", "CUB 3.5 Arrays", 5e-6, same_bits=False),
    row("2^10", "CUB 3.5 Pairs", 4e-6, same_bits=False),
    row("2^11", "CUB 3.5 Arrays", 6e-6, same_bits=True),
]
MACHINE = {"gpus": ["a GPU"], "processor": "a CPU", "cores": 2}
RECORD = {"study": "s", "cases": ROWS, "date": "2026-11-22", "machine": MACHINE}


def test_summaries(load: Any) -> None:
    """The fastest of a family is kept, and other bits are told."""
    groups = load("cuda.groups")
    kept = groups.fastest(ROWS, ("CUB 3.5",))
    assert kept == [ROWS[0], ROWS[2], ROWS[3]]
    lines = groups.summary(ROWS, ("CUB 3.5",))
    assert ["other bits" in line for line in lines] == [False, True, False]
    assert lines[0].split()[:5] == ["2^10", "mgrec", "kernel", "0.0020", "ms"]


@pytest.mark.parametrize("study", ["cuda.peers", "cuda.sizes"])
def test_a_result_is_drawn(load: Any, study: str, tmp_path: Path) -> None:
    """By a picture of the study, or else by that of all studies."""
    path, picture = tmp_path / "s-here-2026-11-22.json", getattr(load(study), "draw", None)
    load("harness.records").write(RECORD, path)
    command = load("harness.command").Command("s", "A study.", None, picture=picture)
    command.main(["--plot", str(path)])
    assert path.with_suffix(".png").stat().st_size > 1000


@pytest.mark.parametrize(("budget", "reason"), [(100.0, "its process ended with"), (1.0, "no time was left")])
def test_a_group_that_crashes_or_has_no_time_is_said_to_be_not_measured(
    load: Any, capfd: Any, budget: float, reason: str
) -> None:
    study = load("harness.study").Study("study")
    options = argparse.Namespace(groups=[], budget=budget, limit=50.0)
    load("cuda.groups").measure(study, options, "no.such.study", {"broken": lambda study: None})
    (missing,) = study.missing
    assert (study.cases, missing["case"]) == ([], "group broken")
    assert missing["reason"].startswith(reason)

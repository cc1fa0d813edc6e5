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
RECORD = {"cases": ROWS, "date": "2026-11-22", "machine": {"gpus": ["a GPU"]}}


def test_the_fastest_of_a_family_is_kept(load: Any) -> None:
    kept = load("cuda.groups").fastest(ROWS, ("CUB 3.5",))
    names = [(each["case"], each["candidate"]) for each in kept]
    assert names == [
        ("2^10", "mgrec kernel"),
        ("2^10", "CUB 3.5 Pairs"),
        ("2^11", "CUB 3.5 Arrays"),
    ]


def test_a_summary_says_what_has_other_bits(load: Any) -> None:
    lines = load("cuda.peers").summary(ROWS)
    assert ["other bits" in line for line in lines] == [False, True, False]


def test_a_table_by_size_has_a_line_a_size(load: Any) -> None:
    head, first, second = load("cuda.sizes").summary(ROWS)
    assert head.split()[0] == "steps"
    assert first.split()[:3] == ["2^10", "-", "2.00"]
    assert second.split() == ["2^11", "-", "-", "-", "6.00", "(0.50)", "-", "-"]


@pytest.mark.parametrize("study", ["cuda.peers", "cuda.sizes"])
def test_a_result_is_drawn(load: Any, study: str, tmp_path: Path) -> None:
    load("harness.records").draw_small(load(study).draw(RECORD), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_a_group_that_crashes_is_said_to_be_not_measured(load: Any, capfd: Any) -> None:
    groups = load("cuda.groups")
    study = load("harness.study").Study("study")
    options = argparse.Namespace(groups=[], budget=100.0, limit=50.0, module="no.such.study")
    groups.measure(study, options, {"broken": lambda study: None})
    reason = study.missing[0]["reason"]
    assert (study.cases, study.missing[0]["case"]) == ([], "group broken")
    assert reason.startswith("its process ended with")


def test_a_group_without_time_is_not_run(load: Any, capfd: Any) -> None:
    groups = load("cuda.groups")
    study = load("harness.study").Study("study")
    options = argparse.Namespace(groups=[], budget=1.0, limit=50.0)
    groups.measure(study, options, {"late": lambda study: None})
    assert study.missing[0]["reason"] == "no time was left"

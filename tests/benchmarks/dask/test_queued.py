"""The study of queued solves over two workers, small, from end to end."""

from __future__ import annotations

import argparse
from typing import Any

import pytest


@pytest.mark.extended
def test_a_small_study(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    queued = load("dask.queued")
    monkeypatch.setattr(queued, "QUEUED", 3)
    study = load("harness.study").Study("queued")
    parts = ["latency", "filter", "Kalman", "posteriors", "table", "pair"]
    queued.measure(study, argparse.Namespace(cluster="local", workers=2, small=True, parts=parts))
    assert not study.missing
    solves = [case["candidate"] for case in study.cases if " " in case["candidate"]]
    of_row = ["one worker's part, one call", "plan, alone", "plan, queued", "run, loop"]
    assert solves[:-5] == of_row * 4
    assert solves[-5:] == [*of_row[:3], "one worker, one call", "plan, alone"]
    assert [bar["wanted"] for bar in study.bars] == [
        "≤ 0.0019",
        "≤ 0.00035",
        "≤ 0.00012",
        "≥ 0.64",
        "≥ 0.93",
        "≥ 0.96",
        "≥ 0.39",
        "≥ 0.8",
        "≥ 0.9",
        "≥ 0.6",
        "≥ 0.85",
        "≥ 0.85",
        "≥ 0.8",
        "≥ 0.88",
        "≥ 1.5",
    ]

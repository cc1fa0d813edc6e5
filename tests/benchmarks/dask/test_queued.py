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
    solves = [case["candidate"] for case in study.cases if case["candidate"].startswith("plan")]
    assert solves == ["plan, alone", "plan, queued"] * 5 + ["plan, alone"]
    assert [bar["wanted"] for bar in study.bars] == [
        "≤ 0.002", "≤ 0.00015", "≥ 0.72", "≥ 0.88", *["≥ 0.6", "≥ 0.85"] * 2, "≥ 0.8",
        "≥ 0.88", "≥ 1.5",
    ]  # fmt: skip

"""The study of a box over two workers, small, from end to end."""

from __future__ import annotations

import argparse
from typing import Any

import pytest


@pytest.mark.extended
def test_a_small_study(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    adi = load("dask.adi")
    monkeypatch.setattr(adi, "STEPS", 2)
    study = load("harness.study").Study("adi")
    adi.measure(study, argparse.Namespace(cluster="local", workers=2, side=9))
    assert [case["candidate"] for case in study.cases] == ["one worker's part, calls", "2 workers, loop"] * 4
    assert len(study.bars) == 4

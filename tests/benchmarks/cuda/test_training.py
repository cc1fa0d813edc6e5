"""The study of ranks of torch, small, from end to end."""

from __future__ import annotations

import argparse
from typing import Any

import pytest


@pytest.mark.extended
def test_a_small_study(load: Any) -> None:
    """Processes over gloo, which check values and gradients."""
    pytest.importorskip("torch", reason="torch is not installed")
    study = load("harness.study").Study("training")
    load("cuda.training").measure(study, argparse.Namespace(small=True, ranks=2))
    assert {case["candidate"] for case in study.cases} == {"alone", "ranks"}
    assert len(study.bars) == 4

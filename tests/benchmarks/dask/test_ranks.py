"""The study of processes by MPI and by Dask, small, from end to end."""

from __future__ import annotations

import argparse
from typing import Any

import pytest


@pytest.mark.extended
def test_a_small_study(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    ranks = load("dask.ranks")
    monkeypatch.setattr(ranks, "COUNTS", (2,))
    study = load("harness.study").Study("ranks")
    ranks.measure(study, argparse.Namespace(small=True))
    candidates = {case["candidate"] for case in study.cases}
    assert {"MPI, 2 processes", "Dask, 2 processes"} < candidates
    assert len(study.notes) == 1 + 2 * len(ranks.ROWS)

"""The study of grids over two workers, small, from end to end."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest


def test_parts_of_a_sequence_are_those_of_the_whole(load: Any) -> None:
    letters = load("dask.grids").letters
    for which in ("query", "target"):
        whole = letters("local", which, 100)
        parts = [letters("local", which, 100, begin, begin + 50) for begin in (0, 50)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert 0.8 < (letters("local", "query", 1000) == letters("local", "target", 1000)).mean() < 1


@pytest.mark.extended
def test_a_small_study(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    grids = load("dask.grids")
    monkeypatch.setattr(grids, "COLUMNS", (2, 4))
    monkeypatch.setattr(grids, "REPETITIONS", 1)
    study = load("harness.study").Study("grids")
    given = argparse.Namespace(cluster="local", workers=2, side=256, letters=900)
    grids.measure(study, given)
    assert [each["candidate"] for each in study.cases] == [
        "one worker's share, one call", "2 workers, 8 chunks",
        *["one worker, one call", "2 workers, 2 x 2 chunks", "2 workers, 2 x 4 chunks"] * 2,
    ]  # fmt: skip
    assert [each["wanted"] for each in study.bars] == ["≥ 0.7", "≥ 1.7"]
    (table,) = (each for each in study.cases if "operand_bytes_across" in each)
    assert table["operand_bytes_across"] == 0
    moved = [each["bytes_across"] for each in study.cases if "bytes_across" in each]
    # Rows and columns of the table; those of the alignments are 8 and 16 bytes a letter.
    assert all(0 < size < 64 * 900 for size in moved)

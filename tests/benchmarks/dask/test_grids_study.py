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


WAYS = ("graph", "solve", "plan")


@pytest.mark.extended
def test_a_small_study(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    grids = load("dask.grids")
    monkeypatch.setattr(grids, "COLUMNS", (2, 4))
    monkeypatch.setattr(grids, "REPETITIONS", 1)
    study = load("harness.study").Study("grids")
    given = argparse.Namespace(cluster="local", workers=2, side=256, letters=900, outputs=grids.OUTPUTS)
    grids.measure(study, given)
    assert [each["candidate"] for each in study.cases] == [
        "one worker's share, one call",
        *[f"2 workers, 8 chunks, {way}" for way in WAYS],
        "one worker, one call",
        *[f"2 workers, 2 x {columns} chunks, {way}" for columns in (2, 4) for way in WAYS],
        "one worker, one call",
        *[f"2 workers, 2 x {columns} chunks, graph" for columns in (2, 4)],
    ]
    assert [each["wanted"] for each in study.bars] == ["≥ 0.7", "≥ 1.7"]
    tables = [each for each in study.cases if each["case"].startswith("summed-area table")]
    assert all(each["operand_bytes_across"] == 0 for each in tables[1:])
    graphs = [each for each in study.cases if each["candidate"].endswith("graph")]
    # Rows and columns of the table; those of the alignments are 8 and 16 bytes a letter.
    assert all(0 < each["bytes_across"] < 64 * 900 for each in graphs)

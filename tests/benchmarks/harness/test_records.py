"""Result files and their tables."""

from __future__ import annotations

from typing import Any


def test_tables_hold_fractions_and_what_was_not_measured(load: Any, capfd: Any) -> None:
    records = load("harness.records")
    study = load("harness.study").Study("study", "the device", 1e9)
    study.compare("case", {"call": lambda: None}, 2, clock=lambda call, count: 2.0, bytes=1e9)
    study.miss("case", "peer", "it is not installed")
    saved = study.record("machine")
    assert saved["cases"][0]["fraction"] == 0.5
    assert saved["copy_bandwidth"] == 1e9
    text = records.tables(saved)
    assert "| case | call | 2 | 2000 | 2000 | 2000 | 0.500 |" in text
    assert "| case | peer | it is not installed |" in text

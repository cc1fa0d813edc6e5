"""Result files and their tables."""

from __future__ import annotations

from pathlib import Path
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


def test_a_row_is_a_line_and_its_times_have_five_digits(load: Any, tmp_path: Path) -> None:
    records = load("harness.records")
    rows = [{"case": "a", "median": 0.00123456789}, {"case": "b", "spans": [{"stop": 1 / 3}]}]
    record = {
        "steps": 1073741825,
        "copy": 29813.688,
        "met": True,
        "machine": {"gpus": ["×"]},
        "cases": rows,
        "not_measured": [],
    }
    records.write(record, tmp_path / "new" / "s.json")
    assert (tmp_path / "new" / "s.json").read_text().split("\n") == [
        "{",
        ' "steps": 1073741825,',  # a count
        ' "copy": 29814.0,',
        ' "met": true,',
        ' "machine": {"gpus": ["×"]},',
        ' "cases": [',
        '  {"case": "a", "median": 0.0012346},',
        '  {"case": "b", "spans": [{"stop": 0.33333}]}',
        " ],",
        ' "not_measured": []',
        "}",
        "",
    ]


def test_stored_results_are_written_as_results_are(load: Any, tmp_path: Path) -> None:
    records = load("harness.records")
    for path in records.RESULTS.glob("*.json"):
        records.write(records.read(path), tmp_path / path.name)
        assert (tmp_path / path.name).read_text() == path.read_text(), path.name

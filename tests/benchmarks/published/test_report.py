"""The page of all results: nothing outside it is needed, and nothing of a result is lost."""

from __future__ import annotations

import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
PNG = b"\x89PNG\r\n\x1a\n"


def record(study: str, **more: Any) -> dict[str, Any]:
    cases = [
        {"case": f"case {k}", "candidate": name, "median": seconds, "steps": 1000, "fraction": 0.5}
        for k in range(2)
        for name, seconds in (("mgrec", 1e-3), ("<peer>", 2e-3))
    ]
    return {
        "study": study,
        "machine": {"name": "here", "gpus": [], "processor": "a CPU", "cores": 2},
        "date": "2026-11-24 10:00:00Z",
        "versions": {"numpy": "2.4", "torch": "not installed"},
        "commit": "0123456789abcdef",
        "load": {"quiet": True},
        "cases": cases,
        **more,
    }


@pytest.fixture
def folder(load: Any, tmp_path: Path) -> Path:
    write = load("harness.records").write
    met = [{"met": True}, {"met": False}]
    write(record("cpu", bars=met), tmp_path / "cpu-here-2026-11-24.json")
    write(record("no_such_study", note="Half of it."), tmp_path / "other-here-2026-11-24.json")
    text = "# cpu\n\n## Times\n\n| a | b |\n|---|---|\n| 1 | <script> |\n"
    (tmp_path / "cpu-here-2026-11-24.md").write_text(text)
    return tmp_path


def test_every_result_has_machine_versions_picture_and_tables(load: Any, folder: Path) -> None:
    page = load("published.report").render(folder)
    words = ("2 cores of a CPU", "2026-11-24", "numpy 2.4", "mgrec 0123456789ab", "Half of it.")
    assert [each for each in words if each not in page] == []
    assert "not installed" not in page
    assert "1 of 2" in page  # bars met
    assert "<td>&lt;peer&gt;</td>" in page  # of the result without tables
    assert "<h3>Times</h3>" in page
    assert "<script>" not in page
    pictures = re.findall(r"data:image/png;base64,([^\"]+)", page)
    assert [b64decode(each)[:8] for each in pictures] == [PNG, PNG]
    assert "how far mgrec lies from a copy" in page
    assert "A line a case, a dot a candidate." in page


def test_it_needs_nothing_else_and_its_links_lead_somewhere(load: Any, folder: Path) -> None:
    page = load("published.report").render(folder)
    found: dict[str, list[str]] = {"id": [], "href": [], "src": []}

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            for name, value in attributes:
                if name in found:
                    found[name].append(value or "")

    Reader().feed(page)
    assert set(found["href"]) == {f"#{each}" for each in found["id"]}
    assert all(each.startswith("data:") for each in found["src"])


def test_a_picture_of_the_study_itself_is_taken(load: Any, folder: Path, tmp_path: Path) -> None:
    (folder / "cpu-here-2026-11-24.png").write_bytes(PNG + b"its own")
    report = load("published.report")
    section = report.section(folder / "cpu-here-2026-11-24.json")
    assert b64decode(section.picture) == PNG + b"its own"
    with pytest.raises(FileNotFoundError, match="no results in"):
        report.render(tmp_path / "empty")


@pytest.mark.extended
def test_every_stored_result_is_on_the_page(load: Any, tmp_path: Path) -> None:
    report, records = load("published.report"), load("harness.records")
    studies = [report.section(path) for path in sorted(records.RESULTS.glob("*.json"))]
    assert all(each.picture and each.tables and each.machine for each in studies)
    unknown = {each.study for each in studies if each.line == "A line a case, a dot a candidate."}
    assert not unknown

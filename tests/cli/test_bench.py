"""``mgrec bench`` lists and runs the studies of a clone, wherever it is called, and reports."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from internals import run_command

from mgrec.cli import bench

ROOT = Path(__file__).parents[2]
TOLD = "import json, sys; json.dump(sys.argv[1:], open('told', 'w'))"
CATALOGUE = """
from types import SimpleNamespace as Entry
STUDIES = (
    Entry(name="cpu.one", module="cpu.one", about="one against two", minutes=1, needs=""),
    Entry(name="cuda.two", module="cuda.two", about="two", minutes=0.5, needs="gpu"),
    Entry(name="cpu.wrong", module="cpu.wrong", about="three", minutes=1, needs=""),
)
"""


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A clone with studies that write what they were called with."""
    clone = tmp_path / "clone"
    texts = {
        "catalogue.py": CATALOGUE,
        "cpu/one.py": TOLD,
        "cpu/wrong.py": "raise SystemExit(3)",
        "dask/scaling/__main__.py": TOLD,
        "cuda/two.py": TOLD,
    }
    for name, text in texts.items():
        path = clone / "benchmarks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(clone).parents:
            (clone / folder / "__init__.py").touch()
    monkeypatch.setattr(bench, "ROOT", clone)
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    yield clone
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def invoke(*arguments: str) -> object:
    return run_command("bench", *arguments)


def told(folder: Path) -> list[str]:
    return json.loads((folder / "told").read_text())


def test_scaling_gets_its_options_and_runs_here(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()  # not that of the clone
    result = invoke("scaling", "--small", "--out", "results")
    assert result.exit_code == 0, result.output
    assert told(tmp_path) == ["--small", "--out", "results"]


def test_a_failure_does_not_end_the_others(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "gpus", list)
    result = invoke("run", "all", "--out", "results")
    assert result.exit_code != 0
    assert told(tmp_path) == ["--out", "results"]
    assert "Left out, since there is no GPU: cuda.two" in result.output
    assert "1 of 2: cpu.one" in result.output
    assert "2 of 2: cpu.wrong" in result.output
    assert "['cpu.wrong']" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["list"], 0, ["one against two", "a GPU"]),
        (["run", "cpu.none"], 2, ["no study 'cpu.none'"]),
        (["run", "one"], 2, ["did you mean cpu.one"]),
        (["run", "cpu.onx"], 2, ["did you mean cpu.one"]),
    ],
)
def test_studies_by_name(clone: Path, arguments: list[str], code: int, words: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert all(word in " ".join(result.output.split()) for word in words)


def test_a_copy_without_studies_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    for arguments in (["scaling"], ["list"], ["report"], ["run", "all"]):
        result = invoke(*arguments)
        assert result.exit_code != 0
        assert "installed without" in result.output


@pytest.mark.parametrize("options", [[], ["--out", "results"]])
def test_installed_studies_write_here_unless_they_are_told_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str]
) -> None:
    told: list[list[str]] = []

    def run(command: list[str], env: dict[str, str]) -> SimpleNamespace:
        told.append(command[2:])
        return SimpleNamespace(returncode=0)

    catalogue = tmp_path / "mgrec" / "_studies" / "catalogue.py"
    catalogue.parent.mkdir(parents=True)
    catalogue.touch()
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench.subprocess, "run", run)
    for name in ("scaling", "report"):
        assert invoke(name, *options).exit_code == 0
    assert told == [
        ["-m", "mgrec._studies.dask.scaling", "--out", ".", *options],
        ["-m", "mgrec._studies.published.report", "--results", ".", *options],
    ]


def test_what_is_missing_is_told(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = invoke("scaling")
    assert result.exit_code == 2
    assert "bench needs jinja2: pip install " in result.output
    assert "markdown-it-py" in result.output


@pytest.mark.extended
def test_results_are_rendered_into_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    results.mkdir()
    stored = ROOT / "benchmarks" / "results" / "tables-xeon-2-2026-11-24.json"
    (results / stored.name).write_text(stored.read_text())
    result = invoke("report", "--results", "results", "--out", "page.html")
    assert result.exit_code == 0, result.output
    assert "8,192" in (tmp_path / "page.html").read_text()
    assert invoke("report", "--results", "none").exit_code == 2
    assert "there are no results in none" in capfd.readouterr().err


def test_the_catalogue_has_every_study() -> None:
    """Every module that is a command, and no other; benchmarks/README.md has a line for each."""
    studies = bench._catalogue()
    names = {entry.module for entry in studies}
    folder = ROOT / "benchmarks"
    commands = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__main__")
        for path in folder.rglob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    }
    others = {name for name in commands if name.split(".")[0] in ("applications", "published")}
    assert names == commands - others
    readme = (folder / "README.md").read_text()
    assert [name for name in names if f"benchmarks.{name}`" not in readme] == []
    assert all(entry.minutes > 0 and entry.about for entry in studies)

"""``mgrec bench`` runs the studies of a clone, wherever it is called."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mgrec.cli import bench, main


def test_a_study_runs_in_the_root_of_the_clone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = tmp_path / "clone" / "benchmarks" / "dask" / "scaling" / "__main__.py"
    study.parent.mkdir(parents=True)
    study.write_text(
        "import json, os, sys; json.dump([os.getcwd(), *sys.argv[1:]], open('told', 'w'))"
    )
    for folder in study.parents[:3]:
        (folder / "__init__.py").touch()
    monkeypatch.setattr(bench, "STUDIES", tmp_path / "clone" / "benchmarks")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling", "--small", "--out", "results"])
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "clone" / "told").read_text())
    results = str(tmp_path / "results")
    assert told == [str(tmp_path / "clone"), "--cluster", "local", "--small", "--out", results]


def test_the_studies_need_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "STUDIES", tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling"])
    assert result.exit_code != 0
    assert "clone of the repository" in result.output

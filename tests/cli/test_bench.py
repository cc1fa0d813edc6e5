"""``mgrec bench`` runs the studies of a clone, or those of an installed mgrec, from anywhere."""

import json
from pathlib import Path
from types import SimpleNamespace

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
    monkeypatch.setattr(bench, "HERE", tmp_path / "clone" / "mgrec")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling", "--small", "--out", "results"])
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "clone" / "told").read_text())
    results = str(tmp_path / "results")
    assert told == [str(tmp_path / "clone"), "--cluster", "local", "--small", "--out", results]


@pytest.mark.parametrize("options", [[], ["--out", "results"]])
def test_installed_studies_write_where_they_are_asked_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str]
) -> None:
    told: list[list[str]] = []

    def run(command: list[str], cwd: Path) -> SimpleNamespace:
        told.append([*command[1:3], *command[-2:], str(cwd)])
        return SimpleNamespace(returncode=0)

    studies = tmp_path / "mgrec" / "_studies" / "dask" / "scaling" / "__main__.py"
    studies.parent.mkdir(parents=True)
    studies.touch()
    monkeypatch.setattr(bench, "HERE", tmp_path / "mgrec")
    monkeypatch.setattr(bench.subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling", *options])
    assert result.exit_code == 0, result.output
    out = str(tmp_path / "results") if options else str(tmp_path)
    assert told == [["-m", "mgrec._studies.dask.scaling", "--out", out, str(tmp_path)]]


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["bench", "scaling"])
    assert result.exit_code == 2
    assert "bench needs matplotlib and scipy: pip install 'mgrec[bench]'" in result.output
    monkeypatch.setattr(bench, "HERE", tmp_path)
    result = CliRunner().invoke(main, ["bench", "scaling"])
    assert result.exit_code == 2
    assert "installed without" in result.output

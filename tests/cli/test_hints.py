"""Hints say what works for how mgrec was installed."""

import shlex
import subprocess
import sys
from importlib.metadata import requires

import pytest

from mgrec.cli import hints
from mgrec.cli.hints import _packages

WHEEL = "https://example.org/mgrec-0.1.0-py3-none-any.whl"
GIT = {"url": "https://example.org/mgrec.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        ({}, ["mgrec[zarr]"]),
        (GIT, ["mgrec[zarr] @ git+https://example.org/mgrec.git@0a1b"]),
        ({"url": WHEEL, "archive_info": {}}, [f"mgrec[zarr] @ {WHEEL}"]),
        ({"url": "file:///nowhere/mgrec", "dir_info": {}}, ["mgrec[zarr]"]),
    ],
)
def test_by_what_pip_recorded(monkeypatch, origin, wanted):
    monkeypatch.setattr(hints, "_origin", lambda: origin)
    assert shlex.split(hints.install("zarr")) == ["pip", "install", *wanted]


@pytest.mark.parametrize("editable", [True, False])
def test_a_folder_that_is_there(monkeypatch, tmp_path, editable):
    origin = {"url": (tmp_path / "my mgrec").as_uri(), "dir_info": {"editable": editable}}
    (tmp_path / "my mgrec").mkdir()
    monkeypatch.setattr(hints, "_origin", lambda: origin)
    wanted = ["-e"] * editable + [f"{tmp_path}/my mgrec[zarr]"]
    assert shlex.split(hints.install("zarr")) == ["pip", "install", *wanted]


def test_else_the_packages_are_named():
    """Also where no index has mgrec."""
    assert all("zarr>=" in each for each in _packages("zarr"))
    assert any(each.startswith("dask-cuda[cu13]") for each in _packages("cuda13"))
    assert any(line.startswith("zarr") for line in requires("mgrec"))
    assert not set(_packages("zarr")) & set(_packages("plot"))


@pytest.mark.extended
def test_the_hint_installs(tmp_path):
    """The command that is shown, without downloading anything."""
    ask = "from mgrec.cli import hints; print(hints.install('zarr'))"
    shown = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    options = ["--dry-run", "--no-deps", "--quiet"]
    command = [sys.executable, "-m", *shlex.split(shown.stdout), *options]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0

"""An output appears when it is complete, or not at all."""

import os
import signal

import pytest

from mgrec.cli import failure, output
from mgrec.cli.output import in_place_when_complete


def make_folder(path, text):
    path.mkdir()
    (path / "chunk").write_text(text)


def make_file(path, text):
    path.write_text(text)


def content(path):
    return (path / "chunk" if path.is_dir() else path).read_text()


KINDS = [("w.npy", make_file), ("w.zarr", make_folder)]


@pytest.mark.parametrize(("name", "make"), KINDS)
def test_it_appears_at_the_end(tmp_path, name, make):
    with in_place_when_complete(tmp_path / name) as part:
        make(part, "new")
        assert [path.name for path in tmp_path.iterdir()] == [part.name]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "new"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_failure_leaves_what_was_there(tmp_path, name, make, error):
    make(tmp_path / name, "old")
    with pytest.raises(error), in_place_when_complete(tmp_path / name) as part:
        make(part, "half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "old"


@pytest.mark.parametrize(("name", "make"), KINDS)
def test_it_replaces_what_was_there(tmp_path, name, make):
    make(tmp_path / name, "old")
    with in_place_when_complete(tmp_path / name) as part:
        make(part, "new")
        assert content(tmp_path / name) == "old"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "new"


@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_signal_while_it_gets_its_name_comes_too_late(tmp_path, name, make, monkeypatch):
    def signalled(move):
        return lambda *paths: (signal.raise_signal(signal.SIGTERM), move(*paths))

    make(tmp_path / name, "old")
    for move in (os.replace, os.rename):
        monkeypatch.setattr(os, move.__name__, signalled(move))
    with failure.in_one_line("nothing"), in_place_when_complete(tmp_path / name) as part:
        make(part, "new")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "new"


@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_second_ctrl_c_does_not_keep_the_part(tmp_path, name, make, monkeypatch):
    def signalled(path, remove=output._remove):
        signal.raise_signal(signal.SIGINT)
        remove(path)

    monkeypatch.setattr(output, "_remove", signalled)
    stopped = failure.in_one_line("nothing")
    with (
        pytest.raises(failure.Interrupted),
        stopped,
        in_place_when_complete(tmp_path / name) as part,
    ):
        make(part, "half")
        signal.raise_signal(signal.SIGINT)
    assert list(tmp_path.iterdir()) == []

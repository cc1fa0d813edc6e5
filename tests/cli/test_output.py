"""An output appears when it is complete, or not at all."""

import errno
import os
import signal
import stat

import pytest

from mgrec.cli import failure, files
from mgrec.cli.files import check_output, replaced_when_complete


def make_folder(path, text):
    path.mkdir(exist_ok=True)
    (path / "chunk").write_text(text)


def make_file(path, text):
    path.write_text(text)


def content(path):
    return (path / "chunk" if path.is_dir() else path).read_text()


KINDS = [("w.npy", make_file), ("w.zarr", make_folder)]


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize(("name", "make"), KINDS)
def test_it_appears_at_the_end(tmp_path, name, make, old):
    if old:
        make(tmp_path / name, old)
    before = [path.name for path in tmp_path.iterdir()]
    with replaced_when_complete(tmp_path / name) as part:
        make(part, "new")
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, part.name])
        assert not old or content(tmp_path / name) == old
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "new"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_failure_leaves_what_was_there(tmp_path, name, make, error):
    make(tmp_path / name, "old")
    with pytest.raises(error), replaced_when_complete(tmp_path / name) as part:
        make(part, "half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "old"


@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_signal_while_it_gets_its_name_comes_too_late(tmp_path, name, make, monkeypatch):
    def signalled(move):
        return lambda *paths: (signal.raise_signal(signal.SIGTERM), move(*paths))

    make(tmp_path / name, "old")
    for move in (os.replace, os.rename):
        monkeypatch.setattr(os, move.__name__, signalled(move))
    with failure.in_one_line("nothing"), replaced_when_complete(tmp_path / name) as part:
        make(part, "new")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content(tmp_path / name) == "new"


@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_second_ctrl_c_does_not_keep_the_part(tmp_path, name, make, monkeypatch):
    def signalled(path, remove=files._remove):
        signal.raise_signal(signal.SIGINT)
        remove(path)

    monkeypatch.setattr(files, "_remove", signalled)
    stopped = failure.in_one_line("nothing")
    with pytest.raises(failure.Failure), stopped, replaced_when_complete(tmp_path / name) as part:
        make(part, "half")
        signal.raise_signal(signal.SIGINT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o750, 0o440])
@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_replaced_output_keeps_its_mode_and_owner(tmp_path, name, make, mode):
    path = tmp_path / name
    make(path, "old")
    path.chmod(mode)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65533)
    before = path.stat()
    with replaced_when_complete(path) as part:
        make(part, "new")
        assert not part.stat().st_mode & 0o077, "others read what is not complete"
    after = path.stat()
    assert content(path) == "new"
    assert stat.S_IMODE(after.st_mode) == mode
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


@pytest.mark.parametrize("is_dangling", [False, True])
@pytest.mark.parametrize(("name", "make"), KINDS)
def test_a_link_stays_and_its_target_is_written(tmp_path, name, make, is_dangling):
    (tmp_path / "far").mkdir()
    link, target = tmp_path / name, tmp_path / "far" / "object"
    link.symlink_to(target)
    if not is_dangling:
        make(target, "old")
    with replaced_when_complete(link) as part:
        assert part.suffix == link.suffix
        make(part, "new")
    assert link.readlink() == target
    assert content(target) == "new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        {"far", "object", name} | ({"chunk"} if target.is_dir() else set())
    )


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path)])
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_file_is_refused(tmp_path, make, overwrite):
    make(tmp_path / "w.npy")
    with pytest.raises(failure.BadInput, match="neither a file nor a folder"):
        check_output(tmp_path / "w.npy", overwrite)


@pytest.mark.parametrize(("name", "make"), KINDS)
@pytest.mark.parametrize("has_hard_links", [True, False])
def test_the_second_of_two_writers_fails(tmp_path, name, make, has_hard_links, monkeypatch):
    def link(*paths):
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_hard_links:
        monkeypatch.setattr(os, "link", link)
    path = tmp_path / name
    with (
        pytest.raises(failure.BadInput, match="exists: pass --overwrite"),
        replaced_when_complete(path, overwrite=False) as slow,
    ):
        make(slow, "slow")
        with replaced_when_complete(path, overwrite=False) as quick:
            make(quick, "quick")
    assert content(path) == "quick"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["w" * 251 + ".npy", "ü" * 125 + ".npy"])
def test_names_may_be_as_long_as_the_file_system_allows(tmp_path, name):
    for text in ("old", "new"):
        with replaced_when_complete(tmp_path / name) as part:
            make_file(part, text)
    assert content(tmp_path / name) == "new"

"""Compiled code on disk: damaged code is missing, and that of others is not loaded."""

import logging
import os

import pytest

from mgrec.engines import code_on_disk
from mgrec.engines.code_on_disk import CodeFolder

VARIABLE = "SOME_CACHE_DIR"
DAMAGES = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "one bit": lambda content: content[:-3] + bytes([content[-3] ^ 4]) + content[-2:],
    "one bit of the checksum": lambda content: bytes([content[0] ^ 128]) + content[1:],
    "garbage": lambda content: os.urandom(len(content)),
    "shifted": lambda content: content[1:],
    "longer": lambda content: content + b"\0",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(code_on_disk, "_logged", set())
    return CodeFolder(tmp_path / "shared", VARIABLE)


def test_stored_code_is_loaded(folder):
    assert folder.load("one", "key") is None
    folder.store("one", "key", b"code")
    assert folder.load("one", "key") == b"code"
    assert [path.name for path in folder.path.iterdir()] == ["one"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_code_is_missing_until_it_is_stored_again(folder, damage):
    folder.store("one", "key", b"code" * 99)
    path = folder.path / "one"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert folder.load("one", "key") is None
    folder.store("one", "key", b"code" * 99)
    assert folder.load("one", "key") == b"code" * 99


def test_code_of_another_key_is_missing(folder):
    folder.store("one", "key", b"code")
    folder.store("other", "other key", b"other code")
    os.replace(folder.path / "other", folder.path / "one")
    assert folder.load("one", "key") is None


def test_only_this_user_may_write_the_folder_and_its_files(folder):
    mask = os.umask(0)
    try:
        folder.store("one", "key", b"code")
    finally:
        os.umask(mask)
    modes = [path.stat().st_mode & 0o777 for path in (folder.path, folder.path / "one")]
    assert modes == [0o700, 0o600]
    folder.path.parent.chmod(0o777)
    assert folder.load("one", "key") == b"code"


@pytest.mark.parametrize("owner", ["another user", "a writable group"])
def test_a_folder_of_others_is_not_used_and_that_is_said_once(folder, owner, monkeypatch, caplog):
    folder.store("one", "key", b"code")
    if owner == "another user":
        monkeypatch.setattr(code_on_disk.os, "geteuid", lambda: os.getuid() + 1)
    else:
        folder.path.chmod(0o770)
    with caplog.at_level(logging.WARNING, "mgrec"):
        assert folder.load("one", "key") is None
        folder.store("other", "key", b"code")
    assert [path.name for path in folder.path.iterdir()] == ["one"]
    assert len(caplog.messages) == 1
    assert f"Remove it, or set {VARIABLE} to a folder of yours" in caplog.text


def test_a_file_that_others_may_write_is_not_loaded(folder):
    folder.store("one", "key", b"code")
    (folder.path / "one").chmod(0o666)
    assert folder.load("one", "key") is None


def test_a_link_to_a_folder_is_not_followed(folder, tmp_path):
    folder.store("one", "key", b"code")
    folder.path.rename(tmp_path / "elsewhere")
    folder.path.symlink_to(tmp_path / "elsewhere")
    assert folder.load("one", "key") is None


def test_a_folder_that_cannot_be_written_is_said_once(folder, caplog):
    folder.path.parent.write_text("")
    with caplog.at_level(logging.INFO, "mgrec"):
        folder.store("one", "key", b"code")
        folder.store("other", "key", b"code")
    assert folder.load("one", "key") is None
    assert len(caplog.messages) == 1
    assert f"set {VARIABLE} to a folder that can be written" in caplog.text


def test_a_full_disk_keeps_no_part_of_a_file(folder, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(code_on_disk.os, "replace", fail)
    folder.store("one", "key", b"code")
    assert list(folder.path.iterdir()) == []

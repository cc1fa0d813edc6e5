"""Compiled CUDA programs on disk, where there is one."""

import logging

from mgrec.backends import uncached
from mgrec.backends.cuda.device import cubins


def test_what_is_kept_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kept"))
    assert cubins._find("one.cubin") is None
    cubins._keep(b"code", "one.cubin")
    assert cubins._find("one.cubin") == b"code"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["one.cubin"]


def test_where_nothing_can_be_written_it_is_told_once(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "kept"))
    monkeypatch.setattr(uncached, "_told", set())
    with caplog.at_level(logging.INFO, "mgrec"):
        cubins._keep(b"code", "one.cubin")
        cubins._keep(b"code", "other.cubin")
    assert cubins._find("one.cubin") is None
    assert len(caplog.messages) == 1
    assert "set CUPY_CACHE_DIR" in caplog.text


def test_a_disk_that_is_full_keeps_no_part(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cubins.os, "replace", fail)
    cubins._keep(b"code", "one.cubin")
    assert list(tmp_path.iterdir()) == []

"""``mgrec linear``: right results, honest failures, nothing half-written."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr
from distributed import LocalCluster

from mgrec import linear_recurrence
from mgrec.cli import cluster as clusters
from mgrec.cli import operands, stores

COMMAND = [sys.executable, "-c", "from mgrec.__main__ import main; main()"]


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(7)
    np.save(tmp_path / "t.npy", random.normal(size=(3, 200)))
    np.save(tmp_path / "s.npy", random.uniform(-1, 1, size=(3, 200)))
    np.save(tmp_path / "row.npy", random.uniform(-1, 1, size=200))
    np.save(tmp_path / "start.npy", random.normal(size=3))
    for name in ("s", "t"):
        store = zarr.create_array(
            tmp_path / f"{name}.zarr", shape=(3, 200), chunks=(2, 64), dtype=float
        )
        store[...] = np.load(tmp_path / f"{name}.npy")
    return tmp_path


def load(path):
    return np.load(path) if path.suffix == ".npy" else zarr.open_array(path, mode="r")[...]


def left_over(folder):
    return sorted(
        path.name for path in folder.iterdir() if ".part" in path.name or ".old" in path.name
    )


def assert_refused(result, code, *words):
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    message = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(message) == 1
    assert all(word in message[0] for word in words), message[0]
    assert "Traceback" not in result.output


@pytest.mark.parametrize("out", ["w.npy", "w.zarr"])
@pytest.mark.parametrize(
    ("s", "t", "options", "expected"),
    [
        ("s.npy", "t.npy", [], {}),
        ("s.zarr", "t.zarr", ["--chunk", 50], {}),
        ("row.npy", "t.zarr", ["--chunk", 37, "--reverse"], {"reverse": True}),
        ("-0.5", "t.npy", ["--initial", "-1.5", "--chunk", 30], {"initial": -1.5}),
        ("s.npy", "t.npy", ["--axis", 0, "--memory", "two-pass"], {"axis": 0}),
        ("0.5", "row.npy", ["--chunk", 199], {}),
        ("s.npy", "t.npy", ["--initial", "start.npy"], {"initial": "start.npy"}),
    ],
)
def test_result_is_that_of_the_function(
    mgrec, address, folder, monkeypatch, s, t, options, expected, out
):
    monkeypatch.chdir(folder)
    result = mgrec("linear", s, t, "-o", out, "--cluster", address, *options)
    assert result.exit_code == 0, result.output
    operands = [load(folder / v) if "." in v and v[-1].isalpha() else float(v) for v in (s, t)]
    if isinstance(expected.get("initial"), str):
        expected = {**expected, "initial": load(folder / expected["initial"])}
    wanted = linear_recurrence(*operands, **expected)
    assert load(folder / out).dtype == wanted.dtype
    np.testing.assert_allclose(load(folder / out), wanted, rtol=1e-12, atol=1e-13)
    assert left_over(folder) == []


@pytest.mark.parametrize(
    ("t", "dtype"),
    [
        (np.ones(10, "f2"), np.float16),
        (np.arange(10, dtype=">i4"), np.int32),
        (np.zeros((0, 4)), np.float64),
        (np.zeros((4, 0)), np.float64),
        pytest.param(
            np.asfortranarray(np.ones((4, 6), np.complex64)),
            np.complex64,
            marks=pytest.mark.extended,
        ),
    ],
)
def test_every_kind_of_file(mgrec, address, tmp_path, t, dtype):
    np.save(tmp_path / "t.npy", t)
    out = tmp_path / "w.npy"
    result = mgrec("linear", 2, tmp_path / "t.npy", "-o", out, "--cluster", address, "--chunk", 4)
    assert result.exit_code == 0, result.output
    assert load(out).dtype == dtype
    np.testing.assert_array_equal(load(out), linear_recurrence(2, t))


def test_a_scheduler_file_names_a_cluster(mgrec, address, folder):
    text = json.dumps({"type": "Scheduler", "address": address, "workers": {}})
    (folder / "scheduler.json").write_text(text)
    arguments = ("linear", 0.5, folder / "t.npy", "-o", folder / "w.npy")
    result = mgrec(*arguments, "--cluster", folder / "scheduler.json")
    assert result.exit_code == 0, result.output
    assert load(folder / "w.npy").shape == (3, 200)


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_an_output_is_replaced_only_if_asked(mgrec, address, folder, suffix):
    out = folder / f"s{suffix}"
    before = load(out)
    arguments = ("linear", out, folder / f"t{suffix}", "-o", out, "--cluster", address)
    assert_refused(mgrec(*arguments), 2, "exists", "--overwrite")
    np.testing.assert_array_equal(load(out), before)
    result = mgrec(*arguments, "--overwrite")
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(load(out), linear_recurrence(before, load(folder / "t.npy")))
    assert left_over(folder) == []


@pytest.mark.parametrize("is_group", [True, False])
def test_only_an_array_is_replaced(mgrec, folder, is_group):
    out = folder / "kept.zarr"
    zarr.create_group(str(out)) if is_group else out.mkdir()
    (out / "notes.txt").write_text("kept")
    result = mgrec("linear", 0.5, folder / "t.npy", "-o", out, "--overwrite")
    assert_refused(result, 2, "kept.zarr", "remove it first")
    assert (out / "notes.txt").read_text() == "kept"


def write_bad_inputs(folder):
    np.save(folder / "five.npy", np.ones(5))
    np.save(folder / "text.npy", np.array(["a", "b"]))
    np.save(folder / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    np.save(folder / "bools.npy", np.array([True, False]))
    np.save(folder / "number.npy", np.float64(3))
    (folder / "torn.npy").write_bytes((folder / "t.npy").read_bytes()[:300])
    (folder / "noise.npy").write_bytes(b"no array")
    (folder / "empty.zarr").mkdir()


@pytest.mark.parametrize(
    ("s", "t", "options", "words"),
    [
        ("0.5", "gone.npy", [], ["gone.npy", "does not exist"]),
        ("gone.zarr", "t.npy", [], ["gone.zarr", "does not exist"]),
        ("half", "t.npy", [], ["half", ".npy", ".zarr"]),
        ("five.npy", "t.npy", [], ["broadcast", "(5,)", "(3, 200)"]),
        ("0.5", "text.npy", [], ["text.npy", "numbers", "<U1"]),
        ("0.5", "objects.npy", [], ["objects.npy", "cannot be read"]),
        ("0.5", "bools.npy", [], ["bools.npy", "bool"]),
        ("0.5", "number.npy", [], ["at least one axis"]),
        ("0.5", "torn.npy", [], ["torn.npy", "cannot be read"]),
        ("0.5", "noise.npy", [], ["noise.npy", "cannot be read"]),
        ("0.5", "empty.zarr", [], ["empty.zarr", "cannot be read"]),
        ("0.5", "t.npy", ["--axis", 2], ["axis", "2"]),
        ("0.5", "t.npy", ["--initial", "five.npy"], ["initial", "(5,)", "(3,)"]),
        ("0.5", "t.npy", ["-o", "w.csv"], ["w.csv", ".npy or .zarr"]),
        ("0.5", "t.npy", ["-o", "gone/w.npy"], ["gone/w.npy", "folder"]),
        ("0.5", "t.npy", ["--cluster", "elsewhere"], ["tcp://HOST:PORT", "elsewhere"]),
        ("0.5", "t.npy", ["--cluster", "noise.npy"], ["noise.npy", "scheduler file"]),
        ("0.5", "t.npy", ["--cluster", "tcp://127.0.0.1:1"], ["127.0.0.1:1", "cannot be reached"]),
    ],
)
def test_bad_input_is_refused_in_one_line(mgrec, folder, monkeypatch, s, t, options, words):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(clusters, "_PATIENCE", "1s")
    write_bad_inputs(folder)
    before = sorted(path.name for path in folder.iterdir())
    assert_refused(mgrec("linear", s, t, "-o", "w.npy", *options), 2, *words)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("out", ["w.npy", "w.zarr"])
@pytest.mark.parametrize("old", [False, True])
def test_a_disk_that_fills_up_leaves_nothing(mgrec, address, folder, monkeypatch, out, old):
    def fill_up(stored, index, block):
        if index[-1].start > 50:
            raise OSError(errno.ENOSPC, "No space left on device", stored.path)

    out = folder / out
    if old:
        mgrec("linear", 0.1, folder / "t.npy", "-o", out, "--cluster", address)
    before = load(out) if old else None
    monkeypatch.setattr(stores.Stored, "__setitem__", fill_up)
    arguments = ["linear", 0.5, folder / "t.npy", "-o", out, "--overwrite", "--chunk", 20]
    result = mgrec(*arguments, "--cluster", address)
    assert_refused(result, 1, "the disk is full")
    assert left_over(folder) == []
    assert out.exists() == old
    if old:
        np.testing.assert_array_equal(load(out), before)


def test_no_room_for_the_output_is_told_before_computing(folder):
    result = subprocess.run(
        [*COMMAND, "linear", "0.5", "t.npy", "-o", "w.npy"],
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert result.returncode == 1, result.stderr
    assert "the file is larger than this system allows" in result.stderr
    assert "has no room for 4,928 bytes" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "w.npy").exists()
    assert left_over(folder) == []


def test_a_chunk_that_cannot_be_read_any_more_fails(mgrec, address, folder, monkeypatch):
    def vanish(stored, index):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", stored.path)

    monkeypatch.setattr(stores.Stored, "__getitem__", vanish)
    arguments = ["linear", 0.5, folder / "t.npy", "-o", folder / "w.npy"]
    result = mgrec(*arguments, "--cluster", address)
    assert_refused(result, 1, "computing failed", "t.npy")
    assert not (folder / "w.npy").exists()


def has_processes(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("number", "out", "code", "word"),
    [
        (signal.SIGINT, "w.npy", 130, "interrupted"),
        pytest.param(signal.SIGTERM, "w.zarr", 143, "terminated", marks=pytest.mark.extended),
        pytest.param(signal.SIGHUP, "w.npy", 129, "hung up", marks=pytest.mark.extended),
    ],
)
def test_a_signal_leaves_nothing(tmp_path, number, out, code, word):
    """On a cluster of its own, whose processes get the signal too, as from a terminal."""
    with (tmp_path / "t.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (40_000_000,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 160_000_000)
    running = subprocess.Popen(
        [*COMMAND, "linear", "0.5", "t.npy", "-o", out, "--chunk", "30000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 150
        while not left_over(tmp_path) and time.monotonic() < deadline and running.poll() is None:
            time.sleep(0.05)
        assert left_over(tmp_path), "the computation never started"
        os.killpg(running.pid, number)
        _, errors = running.communicate(timeout=120)
        while has_processes(running.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not has_processes(running.pid), "workers are still there"
    finally:
        if has_processes(running.pid):
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert running.returncode == code, errors
    assert f"Error: {word}: {out} was not written" in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["t.npy"]


def test_the_default_is_a_cluster_of_this_machine(folder):
    command = [*COMMAND, "linear", "s.npy", "t.npy", "-o", "w.npy"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "w.npy: float64 (3, 200)" in result.stdout
    wanted = linear_recurrence(load(folder / "s.npy"), load(folder / "t.npy"))
    np.testing.assert_allclose(load(folder / "w.npy"), wanted, rtol=1e-12, atol=1e-13)


def test_help_documents_the_exit_codes(mgrec):
    text = mgrec("linear", "--help").output
    assert "Exit codes:" in text
    assert "  130  interrupted (ctrl-C)" in text
    assert "  143  terminated (SIGTERM)" in text


def test_many_chunks_are_advised_against(mgrec, address, folder, monkeypatch):
    monkeypatch.setattr(operands, "MANY_CHUNKS", 3)
    arguments = ["linear", 0.5, folder / "t.npy", "-o", folder / "w.npy", "--cluster", address]
    result = mgrec(*arguments, "--chunk", 50)
    assert result.exit_code == 0, result.output
    assert "Warning: 4 chunks along axis -1" in result.stderr
    assert "Warning" not in mgrec(*arguments, "--chunk", 67, "--overwrite").stderr


def test_a_cluster_without_workers_is_refused(mgrec, folder):
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0", protocol="tcp://") as c:
        arguments = ["linear", 0.5, folder / "t.npy", "-o", folder / "w.npy"]
        result = mgrec(*arguments, "--cluster", c.scheduler_address)
    assert_refused(result, 2, "has no workers")

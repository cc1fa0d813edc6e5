"""``mgrec linear``, ``tridiagonal``, ``filter`` and ``sat``: right results, honest failures."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from functools import wraps

import numpy as np
import pytest
from clusters import wait_until
from distributed import LocalCluster
from internals import few_chunks_a_graph
from scipy.signal import butter, sosfilt, sosfiltfilt

from mgrec import linear_recurrence, solve_tridiagonal
from mgrec.cli import files, solve

zarr = pytest.importorskip("zarr")

COMMAND = [sys.executable, "-m", "mgrec"]
SECTIONS = butter(2, 0.4, output="sos")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(7)
    for name in "st":
        np.save(f"{name}.npy", random.uniform(-1, 1, (3, 200)))
        store(f"{name}.zarr", load(f"{name}.npy"))
    store("both.zarr/rain", load("t.npy"))
    zarr.open_group("both.zarr", mode="a").create_array("snow", shape=(2,), dtype="f8")
    np.save("row.npy", random.uniform(-1, 1, 200))
    np.save("start.npy", random.normal(size=3))
    np.save("sides.npy", random.normal(size=(3, 200, 4)))
    np.save("image.npy", random.integers(0, 9, (6, 7, 8)))
    np.save("sos.npy", SECTIONS)
    np.save("two.npy", 2.0)
    return tmp_path


def store(path, array):
    made = zarr.create_array(path, shape=array.shape, chunks=(2, 64), dtype=array.dtype)
    made[...] = array


def load(path):
    return np.load(path) if path.endswith(".npy") else zarr.open_array(path, mode="r")[...]


def parts_in(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def sections(x, function=sosfilt, axis=-1):
    return function(SECTIONS, x, axis)


CASES = {
    "linear s.zarr t.zarr -o w.npy --chunk 50": lambda s, t: linear_recurrence(s, t),
    "linear -0.5 t.npy -o w.zarr --initial -1.5": lambda s, t: linear_recurrence(-0.5, t, -1.5),
    "linear row.npy t.zarr -o w.zarr --chunk 37 --reverse": lambda s, t: linear_recurrence(
        load("row.npy"), t, reverse=True
    ),
    "linear s.npy both.zarr/rain -o w.npy --initial start.npy": lambda s, t: linear_recurrence(
        s, t, load("start.npy")
    ),
    "linear s.npy t.npy -o w.npy --axis 0": lambda s, t: linear_recurrence(s, t, axis=0),
    "tridiagonal -1 4 -1 t.zarr -o w.npy --chunk 64": lambda s, t: solve_tridiagonal(-1, 4, -1, t),
    "tridiagonal -0.1 two.npy 0.2 s.npy -o w.zarr --periodic": lambda s, t: solve_tridiagonal(
        -0.1, 2, 0.2, s, periodic=True
    ),
    "tridiagonal s.npy 4 t.npy sides.npy -o w.zarr --axis 1 --rhs-axis -1 --chunk 70": (
        lambda s, t: solve_tridiagonal(s, 4, t, load("sides.npy"), axis=1, rhs_axis=2)
    ),
    "filter t.zarr -o w.npy --butter 2 --low 20 --rate 100 --chunk 64": lambda s, t: sections(t),
    "filter t.npy -o w.zarr --sos sos.npy --zero-phase": lambda s, t: sections(t, sosfiltfilt),
    "sat image.npy -o w.zarr --chunk 3": lambda s, t: load("image.npy").cumsum(2).cumsum(1),
    "sat t.npy -o w.npy --axes 0 1": lambda s, t: t.cumsum(1).cumsum(0),
}
LONG = pytest.mark.extended
COMPILED_FOR_ONE = (
    "linear -0.5",
    "--rhs-axis",
    "--zero-phase",
    "--axis 0",
    "--periodic",
    "start",
    "row.npy",
    "sat t.npy",
)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=LONG if any(part in words for part in COMPILED_FOR_ONE) else ())
        for words in CASES
    ],
)
def test_result_is_that_of_the_function(mgrec, address, folder, words):
    result = mgrec(*words.split(), "--cluster", address)
    assert result.exit_code == 0, result.output
    wanted = CASES[words](load("s.npy"), load("t.npy"))
    (out,) = (word for word in words.split() if word.startswith("w."))
    assert load(out).dtype == wanted.dtype
    np.testing.assert_allclose(load(out), wanted, rtol=1e-9, atol=1e-11)
    assert f"{out}: {wanted.dtype} {wanted.shape} in " in result.stdout
    assert "100%" in result.stderr
    assert parts_in(folder) == []


@pytest.mark.parametrize("t", [np.asfortranarray(np.ones((9, 6), ">f8")), np.zeros((0, 4)), np.zeros((4, 0))])
def test_every_kind_of_file(mgrec, address, t):
    np.save("t.npy", t)
    words = ("linear", "t.npy", "t.npy", "-o", "w.npy", "--chunk", 4, "--overwrite")
    result = mgrec(*words, "--cluster", address)
    assert result.exit_code == 0, result.output
    wanted = linear_recurrence(t, t)
    assert load("w.npy").dtype == wanted.dtype
    np.testing.assert_array_equal(load("w.npy"), wanted)


def test_a_store_behind_a_url_and_a_cluster_of_a_scheduler_file(mgrec, address, folder):
    (folder / "scheduler.json").write_text(json.dumps({"address": address}))
    url = f"file://{folder}/t.zarr"
    result = mgrec("linear", "s.npy", url, "-o", "w.npy", "--cluster", "scheduler.json")
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(load("w.npy"), linear_recurrence(load("s.npy"), load("t.npy")))


def test_the_chunks_of_a_store_are_regular_whatever_those_of_operands(mgrec, address, monkeypatch):
    """Two workers would write one chunk of the store if chunks of the result were not."""
    monkeypatch.setattr(files, "CHUNK_BYTES", 1600)
    odd = zarr.create_array("odd.zarr", shape=(3, 200), chunks=(3, 50), dtype=float)
    odd[...] = load("s.npy")
    result = mgrec("linear", "odd.zarr", "t.zarr", "-o", "w.zarr", "--cluster", address)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(load("w.zarr"), linear_recurrence(load("s.npy"), load("t.npy")))


def assert_refused(result, code, *words):
    assert result.exit_code == code, result.output
    (message,) = (line for line in result.stderr.splitlines() if line.startswith("Error: "))
    assert all(word in message for word in words), message
    assert "Traceback" not in result.output


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_an_output_is_replaced_only_if_asked(mgrec, address, folder, suffix):
    out, before = f"t{suffix}", load(f"t{suffix}")
    words = ("linear", "s.npy", out, "-o", out, "--cluster", address)
    assert_refused(mgrec(*words), 2, "exists", "--overwrite")
    np.testing.assert_array_equal(load(out), before)
    assert mgrec(*words, "--overwrite").exit_code == 0
    np.testing.assert_allclose(load(out), linear_recurrence(load("s.npy"), before))
    assert parts_in(folder) == []


@pytest.mark.parametrize("is_group", [True, False])
def test_only_an_array_is_replaced(mgrec, folder, is_group):
    out = folder / "kept.zarr"
    zarr.create_group(str(out)) if is_group else out.mkdir()
    (out / "notes.txt").write_text("kept")
    result = mgrec("linear", 0.5, "t.npy", "-o", "kept.zarr", "--overwrite")
    assert_refused(result, 2, "kept.zarr", "remove it first")
    assert (out / "notes.txt").read_text() == "kept"


def write_bad_inputs(folder):
    np.save("five.npy", np.ones(5))
    np.save("text.npy", np.array(["a", "b"]))
    np.save("objects.npy", np.array([{}, None], object), allow_pickle=True)
    (folder / "torn.npy").write_bytes((folder / "t.npy").read_bytes()[:300])
    (folder / "noise.npy").write_bytes(b"no array")
    (folder / "empty.zarr").mkdir()
    np.save("axes.npy", np.ones((1,) * 33))
    store("zero.zarr", np.ones((3, 200)))
    metadata = json.loads((folder / "zero.zarr/zarr.json").read_text())
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [2, 0]
    (folder / "zero.zarr/zarr.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("linear 0.5 gone.npy", ["gone.npy does not exist"]),
        ("linear gone.zarr t.npy", ["gone.zarr does not exist"]),
        ("linear 0.5 both.zarr/hail", ["both.zarr/hail does not exist"]),
        ("linear 0.5 both.zarr", ["group of rain, snow", "both.zarr/NAME"]),
        ("linear 0.5 nowhere://x.zarr", ["nowhere://x.zarr cannot be read", "nowhere"]),
        ("linear half t.npy", ["half is neither a number nor a .npy file"]),
        ("linear five.npy t.npy", ["broadcast", "(5,)", "(3, 200)"]),
        ("linear 0.5 text.npy", ["<U1"]),
        ("linear 0.5 objects.npy", ["objects.npy cannot be read"]),
        ("linear 0.5 two.npy", ["at least one axis"]),
        ("linear 0.5 torn.npy", ["torn.npy cannot be read"]),
        ("linear 0.5 noise.npy", ["noise.npy cannot be read"]),
        ("linear 0.5 empty.zarr", ["empty.zarr cannot be read"]),
        ("linear 0.5 axes.npy", ["axes.npy cannot be read", "at most 32 axes; got 33"]),
        ("linear 0.5 zero.zarr", ["zero.zarr cannot be read", "chunks", "(2, 0)"]),
        ("linear 0.5 t.npy --axis 2", ["axis", "2"]),
        ("linear 0.5 t.npy --initial five.npy", ["initial", "(5,)", "(3,)"]),
        ("linear 0.5 t.npy -o w.csv", ["w.csv must end in .npy or .zarr"]),
        ("linear 0.5 t.npy -o gone/w.npy", ["the folder of gone/w.npy"]),
        ("linear 0.5 t.npy -o both.zarr/w.zarr", ["a store of its own"]),
        ("linear 0.5 t.npy --report gone/x.html", ["the folder of gone/x.html"]),
        ("linear 0.5 t.npy --cluster elsewhere", ["--cluster elsewhere"]),
        ("linear 0.5 t.npy --cluster noise.npy", ["noise.npy is no scheduler file"]),
        ("linear 0.5 t.npy --cluster kube", ["kube is neither an address", "nor one of threads"]),
        ("linear --bogus t.npy", ["No such option '--bogus'"]),
        ("tridiagonal 1 4 1 2", ["array in a file"]),
        ("tridiagonal 1 4 1 t.npy --rhs-axis 1", ["--rhs-axis must be another axis"]),
        ("sat row.npy", ["two"]),
        ("sat t.npy --axes 0 2", ["each of axes must be", "got 2"]),
        ("filter t.npy", ["--butter and --sos"]),
        ("filter t.npy --butter 2", ["--low, --high and --band"]),
        ("filter t.npy --butter 2 --low 0.7", ["--low", "below half of --rate"]),
        ("filter t.npy --butter 2 --low nan", ["--low", "above 0"]),
        ("filter t.npy --butter 2 --low 1 --rate 0", ["--low", "half of --rate, 0"]),
        ("filter t.npy --butter 2 --band 0.3 0.1", ["--band (0.3, 0.1)"]),
        ("filter t.npy --sos t.npy", ["n_sections, 6"]),
        ("filter t.npy --sos 2", ["2 is neither", ".npy file"]),
        ("filter t.npy --sos sos.npy --low 0.1", ["belong to --butter"]),
    ],
)
def test_bad_input_is_refused_in_one_line(mgrec, folder, words, expected):
    write_bad_inputs(folder)
    before = sorted(folder.iterdir())
    out = [] if "-o" in words else ["-o", "w.npy"]
    assert_refused(mgrec(*words.split(), *out), 2, *expected)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("dtype", ["i2", "f8"])
def test_the_speed_of_zero_phase_filters_excludes_compilation(mgrec, monkeypatch, dtype):
    np.save("x.npy", np.ones((3, 200), dtype))
    events = []

    def recorded(name):
        function = getattr(solve, name)

        @wraps(function)  # workers import it by its name
        def call(*arguments, **options):
            result = function(*arguments, **options)
            events.append(name)
            return result

        monkeypatch.setattr(solve, name, call)

    recorded("warm_up")
    recorded("fill")
    result = mgrec("filter", "x.npy", "-o", "y.npy", "--sos", "sos.npy", "--zero-phase")
    assert result.exit_code == 0, result.output
    assert events == ["warm_up", "fill"]


@pytest.mark.parametrize("out", ["w.npy", "w.zarr"])
def test_a_disk_that_fills_up_leaves_what_was_there(mgrec, address, folder, monkeypatch, out):
    store(out, load("t.npy")) if out == "w.zarr" else np.save(out, load("t.npy"))

    def fill_up(array, index, block):
        raise OSError(errno.ENOSPC, "No space left on device", out)

    monkeypatch.setattr(files.NpyFile if out == "w.npy" else zarr.Array, "__setitem__", fill_up)
    words = ("linear", "s.npy", "t.npy", "-o", out, "--overwrite", "--cluster", address)
    assert_refused(mgrec(*words), 1, "the disk is full", f"{out} was not written")
    assert parts_in(folder) == []
    np.testing.assert_array_equal(load(out), load("t.npy"))


def test_no_room_for_the_output_is_told_before_computing(mgrec, folder):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        result = mgrec("linear", 0.5, "t.npy", "-o", "w.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    expected = "the file is larger than this system allows", "has no room for 4,928 bytes"
    assert_refused(result, 1, *expected)
    assert not (folder / "w.npy").exists()
    assert parts_in(folder) == []


def test_a_chunk_that_cannot_be_read_any_more_fails(mgrec, address, folder, monkeypatch):
    def vanish(array, index):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", array.path)

    monkeypatch.setattr(files.NpyFile, "__getitem__", vanish)
    result = mgrec("linear", "s.npy", "t.npy", "-o", "w.npy", "--cluster", address)
    assert_refused(result, 1, "computing failed", "t.npy", "every worker sees")
    assert not (folder / "w.npy").exists()


@pytest.mark.parametrize("out", ["w.npy", "w.zarr"])
def test_a_singular_system_leaves_nothing(mgrec, address, folder, out):
    d = np.ones((3, 200))
    d[1, 8] = 0
    np.save("d.npy", d)
    result = mgrec("tridiagonal", 0, "d.npy", 0, "t.npy", "-o", out, "--cluster", address)
    assert_refused(result, 1, "computing failed: LinAlgError", "system (1,) is singular")
    assert not (folder / out).exists()
    assert parts_in(folder) == []


def test_many_chunks_are_advised_against(mgrec, address, monkeypatch):
    few_chunks_a_graph(monkeypatch, 3)
    words = ("linear", "s.npy", "t.npy", "-o", "w.npy", "--chunk", 50, "--cluster", address)
    result = mgrec(*words)
    assert result.exit_code == 0, result.output
    assert "Warning: the recurrence runs along 4 chunks" in result.stderr


def test_help_documents_the_exit_codes(mgrec):
    text = mgrec("linear", "--help").output
    assert "Exit codes:" in text
    assert "  130  interrupted (ctrl-C)" in text


def test_a_cluster_without_workers_is_refused(mgrec):
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0", protocol="tcp://") as c:
        words = ("linear", 0.5, "t.npy", "-o", "w.npy", "--cluster", c.scheduler_address)
        assert_refused(mgrec(*words), 2, "has no workers")


@pytest.mark.parametrize(
    ("options", "workers"), [([], "1 worker"), pytest.param(["--cluster", "local"], "worker", marks=LONG)]
)
def test_the_default_is_this_process(folder, options, workers):
    command = [*COMMAND, "linear", "s.npy", "t.npy", "-o", "w.npy", *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "w.npy: float64 (3, 200)" in result.stdout
    assert workers in result.stdout
    wanted = linear_recurrence(load("s.npy"), load("t.npy"))
    np.testing.assert_allclose(load("w.npy"), wanted, rtol=1e-12, atol=1e-13)


def has_processes(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def written_at(folder):
    """When the newest part of an output was written, in ns."""
    files = [path for part in parts_in(folder) for path in (part, *part.rglob("*"))]
    return max(path.stat().st_mtime_ns for path in files)


@pytest.mark.parametrize(
    ("number", "out", "cluster", "is_computing", "code", "word"),
    [
        (signal.SIGINT, "w.npy", "threads", True, 130, "interrupted"),
        pytest.param(signal.SIGINT, "w.npy", "local", True, 130, "interrupted", marks=LONG),
        pytest.param(signal.SIGINT, "w.zarr", "local", False, 130, "interrupted", marks=LONG),
        pytest.param(signal.SIGTERM, "w.zarr", "local", True, 143, "terminated", marks=LONG),
        pytest.param(signal.SIGHUP, "w.npy", "local", False, 129, "hung up", marks=LONG),
    ],
)
def test_a_signal_leaves_nothing(folder, number, out, cluster, is_computing, code, word):
    """On a cluster of its own, whose processes get the signal too, as from a terminal."""
    with open("long.npy", "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1, 40_000_000)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 320_000_000)
    before = sorted(folder.iterdir())
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})  # one worker is enough
    try:
        running = subprocess.Popen(
            [
                *COMMAND,
                "linear",
                "long.npy",
                "long.npy",
                "-o",
                out,
                "--chunk",
                "100000",
                "--cluster",
                cluster,
            ],  # many chunks: it still runs when the signal comes
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, processors)
    try:

        def wait_while_running(condition):
            wait_until(lambda: condition() or running.poll() is not None)
            assert condition()

        wait_while_running(lambda: parts_in(folder))
        if is_computing:
            start = written_at(folder)
            wait_while_running(lambda: written_at(folder) > start)
        os.killpg(running.pid, number)
        _, errors = running.communicate()
        wait_until(lambda: not has_processes(running.pid))
    finally:
        if has_processes(running.pid):
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert running.returncode == code, errors
    assert f"Error: {word}: {out} was not written" in errors
    assert "Traceback" not in errors
    assert sorted(folder.iterdir()) == before

"""``mgrec demo``: what it prints is measured, and a wrong result is found."""

import importlib.util

import dask.array as da
import numpy as np
import pytest

from mgrec.cli import demo, picture, streaming

PNG = b"\x89PNG\r\n\x1a\n"


def test_it_solves_checks_and_plots(mgrec, address, tmp_path):
    out = tmp_path / "demo.png"
    result = mgrec("demo", "--turns", 41, "--cluster", address, "-o", out)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.replace("│", " ").split())  # rows are wrapped
    assert "1,771,200, 41 times round the Earth" in output
    assert "workers: 1, threads: 2, chunks: 2 of up to 7 MB" in output
    assert "in 14 chunks of 1 MB, on 2 threads" in output
    assert "of 1 GB that it may allocate; the arrays of one call have 0.04 GB" in output
    assert "refuses" not in output
    assert "holds" in output
    assert output.count("times as fast as the loop") == 2
    assert "3 times 1,771,200 steps compared" in output
    assert out.read_bytes()[:8] == PNG
    width, height = (int.from_bytes(out.read_bytes()[k : k + 4]) for k in (16, 20))
    assert width > 1000
    assert height > 800
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("module", "wrong_type"), [(demo, np.ndarray), (streaming, da.Array)], ids=["of one call", "in the file"]
)
def test_a_wrong_result_is_found(mgrec, address, tmp_path, monkeypatch, module, wrong_type):
    right = module.linear_recurrence

    def wrong(*operands, **options):
        result = right(*operands, **options)
        return result + 1e-9 if type(result) is wrong_type else result

    monkeypatch.setattr(module, "linear_recurrence", wrong)
    check_that_an_error_is_found(mgrec, address, tmp_path)


def test_a_wrong_result_of_the_cluster_is_found(mgrec, address, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_load", lambda *arguments, load=demo._load: load(*arguments)[::-1])
    check_that_an_error_is_found(mgrec, address, tmp_path)


def check_that_an_error_is_found(mgrec, address, tmp_path):
    result = mgrec("demo", "--turns", 2, "--cluster", address, "-o", tmp_path / "demo.png")
    assert result.exit_code == 1
    assert "FAILS" in result.output
    assert "outside its stated error bound" in result.stderr


def test_without_matplotlib_it_says_what_adds_the_picture(mgrec, address, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda n: None if n == "matplotlib" else find(n))
    monkeypatch.setattr(picture, "draw", lambda *arguments: pytest.fail("drawn without matplotlib"))
    result = mgrec("demo", "--turns", 1, "--cluster", address, "-o", tmp_path / "demo.png")
    assert result.exit_code == 0, result.output
    assert "pip install 'matplotlib>=" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "message"), [("notes.txt", "notes.txt must end in .png"), ("gone/demo.png", "the folder of")]
)
def test_a_wrong_output_is_told_before_the_work(mgrec, tmp_path, out, message):
    (tmp_path / "notes.txt").write_text("mine")
    result = mgrec("demo", "-o", tmp_path / out)
    assert result.exit_code == 2
    assert message in result.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_records_name_the_phases():
    span = {"action": "compute", "start": 5.0, "stop": 7.0}
    moved = {"action": "transfer", "start": 1.0, "stop": 5.0}
    stream = [
        {
            "key": ("determine-0123456789abcdef0123456789abcdef", 0),
            "worker": "a",
            "thread": 1,
            "startstops": [moved, span],
        },
        {
            "key": ("precompute-0123456789abcdef0123456789abcdef", 0),
            "worker": "b",
            "thread": 1,
            "startstops": [{**span, "start": 4.0}],
        },
    ]
    assert streaming.records_of(stream) == [("determine", 0, 1.0, 3.0), ("precompute", 1, 0.0, 3.0)]


def test_the_system_refuses_more_than_the_limit():
    size = 1 << 28
    with streaming.limited_memory(size):
        kept = np.empty(size // 4, np.uint8)
        with pytest.raises(MemoryError):
            np.empty(size, np.uint8)
    assert np.empty(size, np.uint8).size > kept.size


def test_the_peak_is_the_memory_that_is_used():
    size = 1 << 27
    with streaming.PeakMemory() as memory:
        used = np.ones(size, np.uint8)
        unused = np.empty(8 * size, np.uint8)
    assert 0.9 * used.size < memory.peak < 2 * size < unused.size

"""``mgrec demo``: what it prints is measured, and a wrong result is found."""

import importlib.util

import pytest

from mgrec.cli import demo, machine, picture

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def small(monkeypatch):
    copy = machine.copy_bandwidth
    monkeypatch.setattr(machine, "copy_bandwidth", lambda: copy(1 << 22, repeats=1))


def test_it_solves_checks_and_plots(mgrec, address, tmp_path, small):
    out = tmp_path / "demo.png"
    result = mgrec("demo", "--turns", 41, "--cluster", address, "-o", out)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.replace("│", " ").split())  # rows are wrapped
    assert "1,771,200, 41 times round the Earth" in output
    assert "2 chunks of 1,728,000 steps" in output
    assert "holds" in output
    assert output.count("times as fast as the loop") == 2
    assert "1,771,200 steps compared" in output
    assert out.read_bytes()[:8] == PNG
    width, height = (int.from_bytes(out.read_bytes()[k : k + 4]) for k in (16, 20))
    assert width > 1000
    assert height > 800


def test_a_wrong_result_of_the_cluster_is_found(mgrec, address, tmp_path, small, monkeypatch):
    monkeypatch.setattr(demo, "_halves", lambda series, halves=demo._halves: halves(series)[::-1])
    result = mgrec("demo", "--turns", 2, "--cluster", address, "-o", tmp_path / "demo.png")
    assert result.exit_code == 1
    assert "FAILS" in result.output
    assert "outside its stated error bound" in result.stderr


def test_a_wrong_result_of_one_call_is_found(mgrec, address, tmp_path, small, monkeypatch):
    right = demo.linear_recurrence
    monkeypatch.setattr(demo, "linear_recurrence", lambda *a, **k: right(*a, **k) + 1e-9)
    result = mgrec("demo", "--turns", 2, "--cluster", address, "-o", tmp_path / "demo.png")
    assert result.exit_code == 1
    assert "outside its stated error bound" in result.stderr


def test_without_matplotlib_it_says_what_adds_the_picture(
    mgrec, address, tmp_path, small, monkeypatch
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        demo.importlib.util, "find_spec", lambda n: None if n == "matplotlib" else find(n)
    )
    monkeypatch.setattr(picture, "draw", lambda run, out: pytest.fail("drawn without matplotlib"))
    result = mgrec("demo", "--turns", 1, "--cluster", address, "-o", tmp_path / "demo.png")
    assert result.exit_code == 0, result.output
    assert "pip install 'matplotlib>=" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "message"),
    [("notes.txt", "notes.txt must end in .png"), ("gone/demo.png", "the folder of")],
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
        {"key": ("determine-0123456789abcdef0123456789abcdef", 0), "worker": "a", "thread": 1,
         "startstops": [moved, span]},
        {"key": ("precompute-0123456789abcdef0123456789abcdef", 0), "worker": "b", "thread": 1,
         "startstops": [{**span, "start": 4.0}]},
    ]  # fmt: skip
    assert demo.records_of(stream) == [("determine", 0, 1.0, 3.0), ("precompute", 1, 0.0, 3.0)]

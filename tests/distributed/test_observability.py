"""What a cluster shows of a solve: phases by name and colour, steps, annotations, a log line."""

import logging
import re
import sys
import types

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import wait_until
from dask.utils import key_split
from distributed import get_task_stream, wait
from distributed.diagnostics.progress_stream import color_of
from faults import CHUNKS, SIZE, loaded, solved
from internals import run_command

import mgrec
import mgrec.dask

PHASES = {"pack", "precompute", "propagate", "determine"}


@pytest.mark.parametrize("family", ["linear", "filter", "two-pass"])
def test_the_task_stream_shows_phases_by_name_and_colour(client, family):
    with get_task_stream(client=client) as stream:
        if family == "two-pass":
            wait(mgrec.linear_recurrence(0.5, loaded("load"), memory="two-pass").persist())
        else:
            wait(solved(family, f"shown-{family}").persist())
    # Dask fuses the first of two readings into precompute.
    names = {key_split(task["key"]).removeprefix("load-") for task in stream.data}
    first = "pack-again" if family == "two-pass" else "pack"
    assert names == PHASES - {"pack"} | {first}
    assert len({color_of(phase) for phase in PHASES}) == len(PHASES)


def test_annotations_around_computing_are_kept(client):
    def annotated(dask_scheduler):
        return {
            (task.prefix.name, task.priority[0], task.retries, str(task.annotations))
            for task in dask_scheduler.tasks.values()
        }

    first, second = client.nthreads()
    plain = solved("linear", "plain").persist()
    wait(plain)
    assert {holders for (holders,) in client.who_has(plain).values()} == {first, second}
    del plain
    wait_until(lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    with dask.annotate(priority=7, retries=2, workers=[first], allow_other_workers=False):
        result = solved("linear", "annotated").persist()
    wait(result)
    found = client.run_on_scheduler(annotated)
    assert {name for name, *_ in found} >= {"determine"}
    # A higher priority comes first: the scheduler keeps the negative.
    assert {(priority, retries) for _, priority, retries, _ in found} == {(-7, 2)}
    assert {holders for (holders,) in client.who_has(result).values()} == {first}


class Display:
    """A notebook's display: it keeps what was shown."""

    def __init__(self):
        self.shown = []

    def __call__(self, html, display_id):
        assert display_id
        return self

    def update(self, html):
        self.shown.append(html)


@pytest.fixture
def notebook(monkeypatch):
    display = Display()
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.HTML, ipython.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return display


def test_progress_counts_steps_in_a_notebook(client, notebook):
    w = solved("linear", "notebook").persist()
    mgrec.dask.progress(w, "Smoothing", client)
    assert len(notebook.shown) == 1 + CHUNKS
    total = CHUNKS * SIZE
    assert f"Smoothing: {SIZE:,} of {total:,} steps" in notebook.shown[1]
    assert f"Smoothing: {total:,} of {total:,} steps" in notebook.shown[-1]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_counts_steps_on_a_terminal_alone(client, monkeypatch, capsys, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    mgrec.dask.progress(solved("linear", f"terminal-{is_terminal}").persist(), client=client)
    lines = capsys.readouterr().err.split("\r")
    assert lines[-1] == ("Solving: 20,000 of 20,000 steps\n" if is_terminal else "")


def test_progress_of_chunks_of_several_axes(client, notebook):
    t = da.ones((4, 10), chunks=(3, (2, 8)))
    mgrec.dask.progress(mgrec.linear_recurrence(0.5, t).persist(), client=client)
    counts = {int(shown.split('value="')[1].split('"')[0]) for shown in notebook.shown}
    assert max(counts) == 40


def failing(block, block_info=None):
    if block_info[0]["chunk-location"] == (3,):
        raise OSError("the disk is away")
    return block


def test_progress_names_the_chunk_that_failed(client):
    t = da.ones(100, chunks=10).map_blocks(failing, meta=np.empty(0))
    with pytest.raises(OSError, match="the disk is away") as caught:
        mgrec.dask.progress(mgrec.linear_recurrence(0.5, t).persist(), client=client)
    (note,) = caught.value.__notes__
    assert note.startswith("mgrec: in chunk (")


@pytest.mark.parametrize("family", ["linear", "filter", "without a graph"])
def test_a_solve_is_a_line_in_the_log(client, caplog, family):
    def lines(level):
        caplog.clear()
        with caplog.at_level(level, logger="mgrec"):
            if family == "without a graph":
                mgrec.dask.solve(mgrec.linear_recurrence, 0.5, da.ones(20_000, chunks=500))
            else:
                solved(family, "logged")
        # A busy machine makes distributed warn beside it.
        return [record.getMessage() for record in caplog.records if record.name == "mgrec"]

    tasks = r"tasks pack 40, precompute 40, propagate 2, determine 40"
    told = r"[12] workers, [\d.]+ ms" if family == "without a graph" else tasks
    (line,) = lines(logging.DEBUG)
    assert re.fullmatch(rf"solve: shape \(20000,\), chunks \(40,\) of up to \(500,\), float64, {told}", line)
    assert not lines(logging.INFO)


@pytest.fixture
def command(tmp_path):
    np.save(tmp_path / "t.npy", np.ones(1000))

    def run(*options):
        arguments = ["linear", "0.5", tmp_path / "t.npy", "-o", tmp_path / "w.npy", "--chunk", 100]
        return run_command(*arguments, *options)

    return run


def test_the_command_writes_a_report(client, command, tmp_path):
    pytest.importorskip("bokeh", reason="needs the extra report")
    result = command("--cluster", client.scheduler.address, "--report", tmp_path / "out.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out.html").read_text()
    assert "Dask Performance Report" in page
    assert all(phase in page for phase in ("precompute", "propagate", "determine"))


def test_a_report_without_bokeh_is_refused_first(command, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = command("--report", tmp_path / "out.html")
    assert result.exit_code == 2
    assert "needs bokeh: pip install" in result.stderr
    assert not (tmp_path / "w.npy").exists()

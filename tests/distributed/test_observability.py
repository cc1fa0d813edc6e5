"""What a cluster shows of a solve: phases by name and colour, steps, annotations, a log line."""

import logging
import re
import sys
import types

import dask
import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from dask.utils import key_split
from distributed import Client, LocalCluster, get_task_stream, wait
from distributed.diagnostics.progress_stream import color_of
from faults import CHUNKS, SIZE, loaded, solved

import mgrec
import mgrec.dask
from mgrec.cli.command import main

PHASES = {"pack", "precompute", "propagate", "determine"}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("family", ["linear", "filter"])
def test_the_task_stream_shows_phases_by_name_and_colour(client, family):
    with get_task_stream(client=client) as stream:
        wait(solved(family, f"shown-{family}").persist())
    assert {key_split(task["key"]) for task in stream.data} == PHASES
    assert len({color_of(phase) for phase in PHASES}) == len(PHASES)


def test_the_phases_of_a_second_reading_have_a_name_of_their_own(client):
    t = loaded("load")
    with get_task_stream(client=client) as stream:
        wait(mgrec.linear_recurrence(0.5, t, memory="two-pass").persist())
    names = {key_split(task["key"]) for task in stream.data}
    assert names >= PHASES - {"pack"}
    # Dask fuses the first reading into precompute.
    assert {name.removeprefix("load-") for name in names - PHASES} == {"pack-again"}


def test_annotations_around_computing_are_kept(client):
    def annotated(dask_scheduler):
        return {
            (task.prefix.name, task.priority[0], task.retries, str(task.annotations))
            for task in dask_scheduler.tasks.values()
        }

    (first, _) = client.nthreads()
    with dask.annotate(priority=7, retries=2, workers=[first], allow_other_workers=False):
        result = solved("linear", "annotated").persist()
    wait(result)
    found = client.run_on_scheduler(annotated)
    assert {name for name, *_ in found} >= {"determine"}
    # A higher priority comes first: the scheduler keeps the negative.
    assert {(priority, retries) for _, priority, retries, _ in found} == {(-7, 2)}
    assert {holders for (holders,) in client.who_has(result).values()} == {first}


def test_annotations_can_be_missed(client):
    """The scheduler's records fail the test above where nothing was annotated."""
    result = solved("linear", "plain").persist()
    wait(result)
    assert len({holders for (holders,) in client.who_has(result).values()}) == 2


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


def test_progress_is_not_that_of_a_persisted_operand(client):
    t = da.ones(1000, chunks=100).persist()
    with pytest.raises(ValueError, match="array must be persisted"):
        mgrec.dask.progress(mgrec.linear_recurrence(0.25, t), client=client)


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


@pytest.mark.parametrize("family", ["linear", "filter"])
def test_a_solve_is_a_line_in_the_log(caplog, family):
    with caplog.at_level(logging.DEBUG, logger="mgrec"):
        solved(family, "logged")
    # A busy machine makes distributed warn beside it.
    (record,) = (each for each in caplog.records if each.name == "mgrec")
    assert record.getMessage() == (
        "solve: shape (20000,), chunks (40,) of up to (500,), float64, "
        "tasks pack 40, precompute 40, propagate 2, determine 40"
    )


def test_a_solve_without_a_graph_is_a_line_in_the_log(client, caplog):
    t = da.ones(400, chunks=50)
    with caplog.at_level(logging.DEBUG, logger="mgrec"):
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, t, client=client)
    (record,) = (each for each in caplog.records if each.name == "mgrec")
    assert re.fullmatch(
        r"solve: shape \(400,\), chunks \(8,\) of up to \(50,\), float64, 2 workers, [\d.]+ ms",
        record.getMessage(),
    )


def test_the_log_is_quiet_above_that_level(client, caplog):
    with caplog.at_level(logging.INFO, logger="mgrec"):
        solved("linear", "not logged")
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, da.ones(4, chunks=2), client=client)
    assert not [each for each in caplog.records if each.name == "mgrec"]


@pytest.fixture
def command(client, tmp_path):
    np.save(tmp_path / "t.npy", np.ones(1000))

    def run(*options):
        arguments = ["linear", "0.5", tmp_path / "t.npy", "-o", tmp_path / "w.npy", "--chunk", 100]
        return CliRunner().invoke(main, [str(a) for a in (*arguments, *options)])

    return run


@pytest.fixture(scope="module")
def address():
    with LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


def test_the_command_writes_a_report(command, address, tmp_path):
    pytest.importorskip("bokeh", reason="needs the extra report")
    result = command("--cluster", address, "--report", tmp_path / "out.html")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out.html").read_text()
    assert "Dask Performance Report" in page
    assert all(phase in page for phase in ("precompute", "propagate", "determine"))


@pytest.mark.parametrize("has_bokeh", [True, False])
def test_a_report_that_cannot_be_written_is_refused_first(
    command, tmp_path, monkeypatch, has_bokeh
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: has_bokeh or None)
    folder = "gone" if has_bokeh else "."
    result = command("--report", tmp_path / folder / "out.html")
    assert result.exit_code == 2
    told = "the folder of" if has_bokeh else "needs bokeh: pip install"
    assert told in result.stderr
    assert not (tmp_path / "w.npy").exists()

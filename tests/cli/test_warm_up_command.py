"""``mgrec warm-up``: first calls find compiled code on disk."""

from concurrent.futures import ProcessPoolExecutor
from operator import attrgetter

import numpy as np
import pytest

import mgrec as package
from mgrec.cli import examples, warm_up
from mgrec.cli.examples import EXAMPLES, compile_kernels


def paths(*names):
    return [example.path for example in warm_up.select(names)]


def test_kernels_are_compiled_once(mgrec, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    arguments = "warm-up", "uniform_filter1d", "mgrec.ndimage.uniform_filter", "--jobs", 1
    result = mgrec(*arguments)
    assert result.exit_code == 0, result.output
    assert "\nndimage.uniform_filter1d     1 kernel " in f"\n{result.stdout}"
    assert "2 functions: compiled 1 kernel;" in result.stdout
    assert result.stdout.endswith(" s, 1 process\n")
    assert len([*tmp_path.rglob("*.nbc")]) == 1
    again = mgrec(*arguments)
    assert again.stdout.startswith("2 functions: all kernels were on disk;")


def test_a_folder_that_cannot_be_written_is_an_error(mgrec, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    result = mgrec("warm-up", "uniform_filter1d", "--jobs", 1)
    assert result.exit_code == 1
    assert "set NUMBA_CACHE_DIR to a folder that can be written" in result.stderr


def test_ctrl_c_ends_the_processes(mgrec, monkeypatch):
    pools = []

    class Pool(ProcessPoolExecutor):
        def submit(self, *arguments):
            pools.append(self)
            return super().submit(abs, 1)

    def interrupt(futures):
        raise KeyboardInterrupt

    monkeypatch.setattr(warm_up, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(warm_up, "_follow", interrupt)
    result = mgrec("warm-up", "lfilter", "--jobs", 1)
    assert result.exit_code == 130
    assert "interrupted: compiled code stays on disk" in result.stderr
    with pytest.raises(RuntimeError, match="shutdown"):
        pools[0].submit(abs, 1)


def test_functions_are_named_with_or_without_their_module():
    assert paths("lfilter") == paths("signal.lfilter") == ["signal.lfilter"]
    assert paths("sample") == ["hmm.sample", "statespace.sample"]
    assert paths("scan") == ["scan"]


def test_an_unknown_name_is_answered_by_all_names(mgrec):
    result = mgrec("warm-up", "lfilter", "filter")
    assert result.exit_code == 2
    assert "there is no function 'filter'; functions: linear_recurrence," in result.stderr
    assert all(example.path in result.stderr for example in EXAMPLES)


def test_the_first_functions_share_no_kernels():
    names = "sosfilt", "lfilter", "ewm", "filtfilt", "viterbi"
    assert paths(*names)[:3] == ["signal.lfilter", "signal.ewm", "hmm.viterbi"]
    assert {*paths()} == {example.path for example in EXAMPLES}


@pytest.mark.parametrize("path", ["solve_banded", "solve_block_tridiagonal"])
def test_examples_with_operands_of_other_shapes_are_resized(path):
    (example,) = (example for example in EXAMPLES if example.path == path)
    for shape, options in examples._shapes(example, 64):
        resized = example.resized(shape, "float64", options.get("axis", -1))
        assert resized.call(np.asarray, **options).shape == shape


def test_examples_call_the_functions_of_their_names():
    for example in EXAMPLES:
        function = attrgetter(example.path)(package)
        assert example.function is function or example.function.__wrapped__ is function


@pytest.mark.extended
@pytest.mark.slow
def test_a_second_warm_up_compiles_nothing():
    for example in EXAMPLES:
        compile_kernels(example.path, 2000)
        assert compile_kernels(example.path, 2000).kernels == 0

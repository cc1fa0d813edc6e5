"""Compiling is silent and not timed; chunks that are read several times bring a warning."""

import re
import time

import numpy as np
import pytest
import zarr

from mgrec.cli import compiling, operands, reads, writing


@pytest.fixture
def folder(tmp_path):
    x = np.random.default_rng(3).normal(size=(40, 60))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "sos.npy", [[0.2, 0.1, 0.0, 1.0, -0.5, 0.1]])
    return tmp_path


COMMANDS = {
    "linear": ["linear", "-0.5", "x.npy"],
    "tridiagonal": ["tridiagonal", "-1", "4", "-1", "x.npy"],
    "tridiagonal, p-scheme": ["tridiagonal", "-1", "4", "-1", "x.npy", "--method", "p-scheme"],
    "filter": ["filter", "x.npy", "--sos", "sos.npy"],
    "filter, zero phase": ["filter", "x.npy", "--sos", "sos.npy", "--zero-phase", "--axis", "0"],
    "sat": ["sat", "x.npy"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_it_is_silent(mgrec, address, folder, words):
    words = [str(folder / word) if word.endswith(".npy") else word for word in words]
    result = mgrec(*words, "-o", folder / "w.npy", "--cluster", address)
    assert result.exit_code == 0, result.output
    assert not re.search("compil|load", result.stderr, re.IGNORECASE)


def test_compiling_is_no_part_of_the_time(mgrec, address, folder, monkeypatch):
    def slowly(client, compile):
        time.sleep(1.5)
        compiling.compile_on(client, compile)

    monkeypatch.setattr(writing, "compile_on", slowly)
    words = ("linear", "0.5", folder / "x.npy", "-o", folder / "w.npy")
    result = mgrec(*words, "--cluster", address)
    assert float(result.stdout.split(" in ")[1].split(" s,")[0]) < 1.0, result.stdout


@pytest.mark.parametrize(
    ("stored", "chunks", "times"),
    [
        ((10,), ((10,) * 2000,), None),
        ((10,), ((5,) * 4000,), 2.0),
        ((10,), ((1,) * 20_000,), 10.0),
        ((10,), ((1,) * 500,), None),
        ((10, 4), ((15,) * 200, (2,) * 20), 2.7),
        (None, ((1,) * 20_000,), None),
        ((7,), ((0,) * 2000,), None),
    ],
)
def test_chunks_that_are_read_several_times(capsys, stored, chunks, times):
    reads.warn_if_misaligned("/data/rain.zarr", stored, chunks)
    told = capsys.readouterr().err
    assert bool(told) is (times is not None)
    if times:
        assert "rain.zarr is stored in" in told
        assert f"each is read {times} times" in told


def test_the_command_warns_of_them(mgrec, address, tmp_path, monkeypatch):
    monkeypatch.setattr(reads, "MANY_READS", 10)
    store = zarr.create_array(tmp_path / "t.zarr", shape=(120,), chunks=(30,), dtype="f8")
    store[...] = 1.0
    words = ("linear", "0.5", tmp_path / "t.zarr", "-o", tmp_path / "w.npy", "--chunk", 10)
    result = mgrec(*words, "--cluster", address)
    assert result.exit_code == 0, result.output
    assert "each is read 3.0 times" in result.stderr
    np.testing.assert_allclose(np.load(tmp_path / "w.npy")[-1], 2.0)


@pytest.mark.parametrize(
    "words",
    [
        ["linear", "--bogus", "t.npy"],
        ["linear", "0.5", "--bogus"],
        ["linear", "-x", "t.npy"],
        ["linear", "--bogus", "0.5", "t.npy"],
        ["tridiagonal", "--bogus", "4", "-1", "b.npy"],
        ["sat", "--bogus", "i.npy"],
    ],
)
def test_an_option_that_there_is_not_is_no_operand(mgrec, tmp_path, words):
    result = mgrec(*words, "-o", tmp_path / "w.npy")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize("s", ["-0.5", "-.5", "-5e-1", "-1", "-1j", "-inf"])
def test_negative_numbers_are_operands(s):
    assert operands.NumberOrFile().convert(s, None, None) == s
    assert operands.number_or_file(s) == complex(s)

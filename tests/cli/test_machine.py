"""``mgrec info``: versions, devices and missing packages."""

import itertools
import os
import re
import shlex
import time
from importlib.metadata import version

import pytest

from mgrec import __version__
from mgrec.cli import machine


def test_info_reports_versions_devices_and_bandwidth(mgrec, monkeypatch):
    monkeypatch.setattr(machine, "copy_bandwidth", lambda: 12.3e9)
    monkeypatch.setattr(machine, "gpus", list)
    result = mgrec("info")
    assert result.exit_code == 0, result.output
    for package in ("numpy", "numba", "dask", "distributed"):
        assert version(package) in result.output
    assert "12.3 GB/s read and written" in result.output
    assert "or the extra cuda12" in result.output


def test_info_names_the_command_that_adds_a_missing_package(mgrec, monkeypatch):
    installed = {"mgrec": __version__}
    monkeypatch.setattr(machine, "version_of", installed.get)
    monkeypatch.setattr(machine, "copy_bandwidth", lambda: 1e9)
    output = mgrec("info").output
    for package in ("zarr", "xarray", "matplotlib", "bokeh", "scipy", "biopython"):
        assert re.search(f"missing: pip install .*{package}.*>=", output)


def test_packages_of_an_extra_are_named_whether_or_not_an_index_has_mgrec(monkeypatch):
    assert shlex.split(machine.how_to_add("zarr"))[2:] == ["zarr>=3.0"]
    assert "dask-cuda[cu13]" in machine.how_to_add("cuda13")
    monkeypatch.setattr(machine, "version_of", lambda package: None)  # a folder on the path
    assert machine.how_to_add("zarr") == "pip install 'mgrec[zarr]'"


@pytest.mark.parametrize(
    ("driver", "present", "expected"),
    [
        ("580.65", (), "missing CuPy and dask-cuda: pip install .*cupy-cuda13x"),
        ("570.10", (), "missing CuPy and dask-cuda: pip install .*cupy-cuda12x"),
        ("570.10", ("cupy-cuda12x",), "missing dask-cuda: pip install .*cu12"),
        ("580.65", ("cupy-cuda13x", "dask-cuda"), "are installed"),
    ],
)
def test_info_names_the_packages_that_a_gpu_needs(monkeypatch, driver, present, expected):
    installed = dict.fromkeys((*present, "mgrec"), "1")
    monkeypatch.setattr(machine, "version_of", installed.get)
    assert re.search(expected, machine.for_gpus([machine.Gpu("H100", 81559, driver)]))


@pytest.mark.parametrize(
    ("answer", "count"),
    [("NVIDIA H100 80GB HBM3, 81559, 580.65.06\n" * 2, 2), ("No devices were found\n", 0)],
)
def test_the_answer_of_the_driver_is_read(tmp_path, monkeypatch, answer, count):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert machine.gpus() == [machine.Gpu("NVIDIA H100 80GB HBM3", 81559, "580.65.06")] * count


def test_bandwidth_counts_reading_and_writing(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)
    assert machine.copy_bandwidth(1 << 20) == 1 << 21


def test_version(mgrec):
    assert mgrec("--version").output == f"mgrec {__version__}\n"

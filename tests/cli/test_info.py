"""``mgrec info``: versions, devices, and what would add the rest."""

from importlib.metadata import version

import pytest

from mgrec import __version__
from mgrec.cli import devices, info


def test_it_tells_versions_devices_and_bandwidth(mgrec, monkeypatch):
    measured = devices.Bandwidth(12.3e9, 256 << 20, 2)
    monkeypatch.setattr(devices, "copy_bandwidth", lambda: measured)
    monkeypatch.setattr(devices, "gpus", list)
    result = mgrec("info")
    assert result.exit_code == 0, result.output
    for package in ("numpy", "numba", "dask", "distributed"):
        assert version(package) in result.output
    assert "12.3 GB/s read and written, 256 MiB copied by 2 threads" in result.output
    assert "pip install 'mgrec[cuda13]', or cuda12 in its place" in result.output


def test_a_package_that_is_missing_is_told_with_its_extra(mgrec, monkeypatch):
    monkeypatch.setattr(info, "installed", lambda package: None)
    monkeypatch.setattr(devices, "copy_bandwidth", lambda: devices.Bandwidth(1e9, 1 << 20, 1))
    output = mgrec("info").output
    for extra in ("zarr", "xarray", "plot", "report"):
        assert f"missing: pip install 'mgrec[{extra}]'" in output
    assert "missing: pip install 'mgrec[scipy]', for mgrec filter --butter" in output


@pytest.mark.parametrize(
    ("driver", "present", "told"),
    [
        ("580.65", (), "missing CuPy and dask-cuda: pip install 'mgrec\\[cuda13]'"),
        ("570.10", (), "missing CuPy and dask-cuda: pip install 'mgrec\\[cuda12]'"),
        ("570.10", ("cupy-cuda12x",), "missing dask-cuda: pip install 'mgrec\\[cuda12]'"),
        ("580.65", ("cupy-cuda13x", "dask-cuda"), "are installed"),
    ],
)
def test_what_a_gpu_needs(monkeypatch, driver, present, told):
    monkeypatch.setattr(info, "installed", lambda package: "1" if package in present else None)
    assert told in info.for_gpus([devices.Gpu("H100", 81559, driver)])


def test_the_answer_of_the_driver_is_read():
    answer = "NVIDIA H100 80GB HBM3, 81559, 580.65.06\nNVIDIA H100 80GB HBM3, 81559, 580.65.06\n"
    gpu = devices.Gpu("NVIDIA H100 80GB HBM3", 81559, "580.65.06")
    assert devices._parsed(answer) == [gpu, gpu]
    assert devices._parsed("No devices were found\n") == []


def test_bandwidth_counts_reading_and_writing(monkeypatch):
    monkeypatch.setattr(devices, "_seconds", lambda call: call() or 0.5)
    assert devices.copy_bandwidth(1 << 20, threads=3) == devices.Bandwidth(1 << 22, 1 << 20, 3)


def test_version(mgrec):
    assert mgrec("--version").output == f"mgrec {__version__}\n"

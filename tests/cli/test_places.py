"""Groups that xarray wrote, their members, and URLs."""

import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr

from mgrec.cli import stores

DAYS = 40


@pytest.fixture
def rain(tmp_path):
    values = np.random.default_rng(1).gamma(0.3, 10.0, (3, DAYS))
    dims, axis = ("station", "day"), {"day": np.arange(DAYS)}
    weather = xr.Dataset({"rain": (dims, values)}, axis)
    weather.to_zarr(tmp_path / "weather.zarr", consolidated=False)
    weather.assign(wind=2 * weather.rain).to_zarr(tmp_path / "both.zarr", consolidated=False)
    return values


def by_loop(values, s=0.5):
    result, before = np.empty_like(values), 0.0
    for day in range(values.shape[-1]):
        before = result[..., day] = s * before + values[..., day]
    return result


@pytest.mark.parametrize("source", ["weather.zarr", "weather.zarr/rain", "both.zarr/rain"])
def test_groups_and_members(mgrec, address, tmp_path, rain, source):
    out = tmp_path / "w.zarr"
    result = mgrec("linear", 0.5, tmp_path / source, "-o", out, "--cluster", address)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(zarr.open_array(out, mode="r")[...], by_loop(rain))
    assert ("weather.zarr/rain, the array" in result.stderr) == (source == "weather.zarr")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("both.zarr", ["group of 2 arrays", "rain (3, 40), wind (3, 40)", "both.zarr/rain"]),
        ("both.zarr/snow", ["does not exist", "both.zarr has day, rain, wind"]),
        ("gone.zarr/snow", ["does not exist"]),
        ("nowhere://x.zarr", ["nowhere://x.zarr cannot be opened", "nowhere"]),
        ("memory://gone.zarr", ["does not exist"]),
    ],
)
def test_what_is_not_there_is_told(mgrec, address, tmp_path, rain, source, words):
    place = source if "://" in source else tmp_path / source
    result = mgrec("linear", 0.5, place, "-o", tmp_path / "w.npy", "--cluster", address)
    assert result.exit_code == 2, result.output
    assert all(word in result.stderr for word in words), result.stderr


def test_a_scheme_says_which_package_it_needs(mgrec, address, tmp_path, monkeypatch):
    def lacking(*_):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lacking)
    result = mgrec("linear", 0.5, "s3://rain/x.zarr", "-o", tmp_path / "w.npy")
    assert result.exit_code == 2
    assert "s3://rain/x.zarr cannot be opened: Install s3fs" in result.stderr


@pytest.fixture
def memory():
    """A folder behind a URL, which this process alone sees, as does its cluster."""
    files = fsspec.filesystem("memory")
    yield "memory://mgrec"
    if files.exists("/mgrec"):
        files.rm("/mgrec", recursive=True)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1])
def test_urls(mgrec, address, rain, memory, order, axis):
    with fsspec.open(f"{memory}/rain.npy", "wb") as file:
        np.save(file, np.asarray(rain, order=order))
    words = ("-o", f"{memory}/w.zarr", "--axis", axis, "--chunk", 2 if axis == 0 else 7)
    result = mgrec("linear", 0.5, f"{memory}/rain.npy", *words, "--cluster", address)
    assert result.exit_code == 0, result.output
    wanted = by_loop(rain) if axis == 1 else by_loop(rain.T).T
    np.testing.assert_allclose(zarr.open_array(f"{memory}/w.zarr", mode="r")[...], wanted)
    again = mgrec("linear", 0.5, f"{memory}/rain.npy", *words, "--cluster", address)
    assert again.exit_code == 2
    assert "exists: pass --overwrite" in again.stderr
    twice = ("linear", 0.5, f"{memory}/w.zarr", "-o", f"{memory}/w2.zarr", "--cluster", address)
    assert mgrec(*twice).exit_code == 0
    changed = mgrec("linear", 2, f"{memory}/rain.npy", *words, "--overwrite", "--cluster", address)
    assert changed.exit_code == 0, changed.output
    assert not np.allclose(zarr.open_array(f"{memory}/w.zarr", mode="r")[...], wanted)


def test_nothing_half_written_stays_behind_a_url(mgrec, address, rain, memory, monkeypatch):
    with fsspec.open(f"{memory}/rain.npy", "wb") as file:
        np.save(file, rain)

    def full(*_):
        raise OSError("no room")

    monkeypatch.setattr(stores.Stored, "__setitem__", full)
    words = ("-o", f"{memory}/w.zarr", "--cluster", address)
    result = mgrec("linear", 0.5, f"{memory}/rain.npy", *words)
    assert result.exit_code == 1
    assert "no room" in result.stderr
    assert not fsspec.filesystem("memory").exists("/mgrec/w.zarr")


@pytest.mark.parametrize(
    ("out", "word"),
    [("memory://mgrec/w.npy", "must end in .zarr"), ("w.zarr/rain", "a store of its own")],
)
def test_where_no_result_goes(mgrec, tmp_path, rain, out, word):
    place = out if "://" in out else tmp_path / out
    result = mgrec("linear", 0.5, tmp_path / "weather.zarr", "-o", place)
    assert result.exit_code == 2
    assert word in result.stderr


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_a_worker_that_does_not_see_a_file_says_so(mgrec, address, tmp_path, rain, kind):
    if kind == "npy":
        np.save(tmp_path / "x.npy", rain)
        stored = stores.find(tmp_path / "x.npy")
    else:
        stored = stores.find(tmp_path / "weather.zarr")
    other = stores.Stored(**{**vars(stored), "path": f"/nowhere/x.{kind}"})
    x = stores.lazy(stored, ((3,), (DAYS,)), stored.shape)
    broken = x.map_blocks(lambda block: other[:], dtype=float)
    from distributed import Client

    with Client(address), pytest.raises(FileNotFoundError) as caught:
        broken.compute()
    assert f"does not see /nowhere/x.{kind}" in str(caught.value)
    assert "worker tcp://" in str(caught.value)
    assert " on " in str(caught.value)

"""``mgrec sat``: the tables of real images, and honest failures."""

import numpy as np
import pytest
import zarr
from matplotlib import cbook
from PIL import Image


def cumulated(image, axes=(0, 1), dtype=None):
    return image.cumsum(axes[1], dtype).cumsum(axes[0], dtype)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(path):
    return np.load(path) if path.endswith(".npy") else zarr.open_array(path, mode="r")[...]


@pytest.mark.parametrize("out", ["table.npy", "table.zarr"])
def test_a_photograph(mgrec, address, out):
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        image = np.asarray(Image.open(file))
    path = cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    result = mgrec("sat", path, "-o", out, "--cluster", address, "--chunk", 200)
    assert result.exit_code == 0, result.output
    assert f"{image.size:.3g} pixels" in result.stderr
    table = load(out)
    assert table.dtype == np.uint64 and table.shape == image.shape and image.ndim == 3
    np.testing.assert_array_equal(table, cumulated(image))


KINDS = {
    "grey.png": ("L", np.uint8),
    "deep.tif": ("I;16", np.uint16),
    "float.tif": ("F", np.float32),
    "bits.png": ("1", np.bool_),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_images(mgrec, address, name):
    mode, dtype = KINDS[name]
    values = np.random.default_rng(3).integers(0, 256, (37, 53)).astype(dtype)
    Image.fromarray(values).convert(mode).save(name)
    result = mgrec("sat", name, "-o", "t.npy", "--cluster", address, "--dtype", "float64")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(load("t.npy"), cumulated(values, dtype=float))


def test_a_palette_stands_for_colours(mgrec, address):
    colours = np.random.default_rng(3).integers(0, 256, (4, 3), np.uint8)
    image = Image.fromarray(np.arange(20, dtype=np.uint8).reshape(4, 5) % 4, "P")
    image.putpalette(colours.tobytes())
    image.save("palette.png")
    result = mgrec("sat", "palette.png", "-o", "t.npy", "--cluster", address)
    assert result.exit_code == 0, result.output
    wanted = colours[np.arange(20).reshape(4, 5) % 4]
    np.testing.assert_array_equal(load("t.npy"), cumulated(wanted))


def test_arrays_and_their_axes(mgrec, address):
    x = np.random.default_rng(3).integers(0, 9, (6, 7, 8))
    np.save("x.npy", x)
    store = zarr.create_array("x.zarr", shape=x.shape, chunks=(2, 3, 8), dtype=x.dtype)
    store[...] = x
    for name, options, axes in (("x.npy", [], (1, 2)), ("x.zarr", ["--axes", 0, -2], (0, 1))):
        result = mgrec("sat", name, "-o", "t.zarr", "--overwrite", "--cluster", address, *options)
        assert result.exit_code == 0, result.output
        np.testing.assert_array_equal(load("t.zarr"), cumulated(x, axes))


def frames(path):
    first, *others = (Image.new("L", (4, 4), value) for value in (0, 9))
    first.save(path, save_all=True, append_images=others)


@pytest.mark.parametrize(
    ("name", "write", "options", "told"),
    [
        ("none.png", None, [], "none.png does not exist"),
        ("text.png", lambda path: path.write_text("no image"), [], "cannot be read as an image"),
        ("two.gif", frames, [], "holds 2 frames; wanted one"),
        ("x.npy", lambda path: np.save(path, np.ones((3, 3))), ["--axes", 0, 2], "axis must be"),
        ("line.npy", lambda path: np.save(path, np.ones(3)), [], "two"),
    ],
)
def test_bad_input_is_one_line(mgrec, address, folder, name, write, options, told):
    if write:
        write(folder / name)
    result = mgrec("sat", name, "-o", "t.npy", "--cluster", address, *options)
    assert result.exit_code == 2
    assert told in result.output and len(result.output.strip().split("\n")) == 1
    assert not (folder / "t.npy").exists()

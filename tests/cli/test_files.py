"""Arrays in .npy files: read and written in parts, of any layout."""

import os
import pickle

import dask.array as da
import numpy as np
import pytest

from mgrec.cli import files

PARTS = [
    (slice(None), slice(None)),
    (slice(2, 5), slice(None)),
    (slice(None), slice(1, 3)),
    (slice(1, 2), slice(0, 4)),
]


@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_are_read_and_written_without_parsing_the_header(tmp_path, monkeypatch, part, order):
    x = np.asarray(np.arange(42).reshape(6, 7) + 0.5, ">f4", order=order)
    np.save(tmp_path / "x.npy", x)
    source = pickle.loads(pickle.dumps(files.open_array(str(tmp_path / "x.npy"))))
    target = files.create(tmp_path / "y.npy", da.zeros_like(x, chunks=3))
    monkeypatch.setattr("ast.literal_eval", lambda *_: pytest.fail("the header is parsed"))
    np.testing.assert_array_equal(source[part], x[part])
    target[part] = source[part]
    monkeypatch.undo()
    wanted = np.zeros_like(x)
    wanted[part] = x[part]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)
    assert target.dtype == x.dtype


def test_a_file_that_becomes_shorter_is_an_error(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(1000))
    source = files.open_array(str(tmp_path / "x.npy"))
    os.truncate(tmp_path / "x.npy", 4000)
    with pytest.raises(ValueError):
        source[900:]


@pytest.mark.parametrize(
    ("shape", "lengths", "chunks"),
    [
        ((10_000_000,), {}, 4_194_304),
        ((10_000_000,), {-1: 1000}, 1000),
        ((4, 10_000_000), {-1: 1_000_000, -3: 5}, 1_000_000),
        ((0, 4), {-1: 2}, 4),
    ],
)
def test_chunks_have_a_given_length_or_about_32_mib(shape, lengths, chunks):
    array = files.NpyFile("x.npy", shape, np.dtype(float), 0)
    sizes = files.lazy(array, lengths).chunks
    assert sizes[-1][0] <= chunks and sizes[-1][0] >= 0.9 * chunks

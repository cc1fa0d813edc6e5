"""``mgrec tridiagonal``: right results, honest failures, nothing half-written."""

import numpy as np
import pytest
import zarr

from mgrec import solve_tridiagonal

N = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(7)
    for name in ("dl", "d", "du"):
        np.save(f"{name}.npy", random.normal(size=(3, N)))
    np.save("b.npy", random.normal(size=(3, N)))
    np.save("sides.npy", random.normal(size=(3, N, 4)))
    np.save("two.npy", np.float64(2))
    np.save("whole.npy", np.arange(N))
    store = zarr.create_array("b.zarr", shape=(3, N), chunks=(2, 16), dtype=float)
    store[...] = np.load("b.npy")
    return tmp_path


def load(path):
    return np.load(path) if path.endswith(".npy") else zarr.open_array(path, mode="r")[...]


def operand(value):
    return load(value) if value.endswith(("npy", "zarr")) else float(value)


FILES = ("dl.npy", "d.npy", "du.npy")


@pytest.mark.parametrize(
    ("operands", "out", "options", "expected"),
    [
        ((*FILES, "b.npy"), "x.npy", [], {}),
        ((*FILES, "b.zarr"), "x.zarr", ["--chunk", 17], {}),
        (("-1", "two.npy", "-0.5", "whole.npy"), "x.npy", ["--chunk", 20], {}),
        (("-1", "4", "-1", "b.zarr"), "x.npy", ["--periodic", "--chunk", 16], {"periodic": True}),
        (("1", "4", "1", "b.npy"), "x.npy", ["--axis", 0, "--memory", "two-pass"], {"axis": 0}),
        (
            (*FILES, "sides.npy"), "x.zarr", ["--axis", 1, "--rhs-axis", -1, "--chunk", 25],
            {"axis": 1, "rhs_axis": 2},
        ),
        (("1", "4", "1", "b.zarr"), "x.npy", ["--method", "thomas"], {"method": "thomas"}),
    ],
)  # fmt: skip
def test_result_is_that_of_the_function(mgrec, address, folder, operands, out, options, expected):
    result = mgrec("tridiagonal", *operands, "-o", out, "--cluster", address, *options)
    assert result.exit_code == 0, result.output
    wanted = solve_tridiagonal(*map(operand, operands), **expected)
    assert load(out).dtype == wanted.dtype
    np.testing.assert_allclose(load(out), wanted, rtol=1e-9, atol=1e-11)
    assert not list(folder.glob(".*"))


def assert_refused(result, code, *words):
    assert result.exit_code == code, result.output
    message = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(message) == 1
    assert all(word in message[0] for word in words), message[0]
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("operands", "options", "words"),
    [
        (("1", "4", "1", "gone.npy"), [], ["gone.npy", "does not exist"]),
        (("1", "4", "1", "2"), [], ["DL, D, DU and B", "file"]),
        (("1", "4", "two.npy", "2"), [], ["at least one axis"]),
        (("1", "4", "one", "b.npy"), [], ["one", "no number"]),
        ((*FILES, "sides.npy"), [], ["shapes of dl, d, du and b", "(3, 60, 4)"]),
        (("1", "4", "1", "b.npy"), ["--axis", 2], ["axis", "2"]),
        (("1", "4", "1", "b.npy"), ["--rhs-axis", 1], ["rhs_axis must be another axis"]),
        (("1", "4", "1", "b.npy"), ["--periodic", "--method", "pcr"], ["'partition'", "'pcr'"]),
        (("1", "4", "1", "b.npy"), ["--method", "thomas", "--chunk", 9], ["thomas", "--chunk"]),
    ],
)
def test_bad_input_is_refused_in_one_line(mgrec, folder, operands, options, words):
    assert_refused(mgrec("tridiagonal", *operands, "-o", "x.npy", *options), 2, *words)
    assert not (folder / "x.npy").exists()


@pytest.mark.parametrize("out", ["x.npy", "x.zarr"])
def test_a_singular_system_leaves_nothing(mgrec, address, folder, out):
    d = np.ones((3, N))
    d[1, 8] = 0
    np.save("d.npy", d)
    result = mgrec("tridiagonal", 0, "d.npy", 0, "b.npy", "-o", out, "--cluster", address)
    assert_refused(result, 1, "computing failed: LinAlgError", "system (1,) is singular")
    assert not (folder / out).exists()
    assert not list(folder.glob(".*"))


def test_nan_fails_unless_it_is_let_through(mgrec, address, folder):
    b = np.load("b.npy")
    b[2, 5] = np.nan
    np.save("b.npy", b)
    arguments = ("tridiagonal", 1, 4, 1, "b.npy", "-o", "x.npy", "--cluster", address)
    assert_refused(mgrec(*arguments), 1, "ValueError: b must hold no nan", "(2, 5)")
    assert not (folder / "x.npy").exists()
    result = mgrec(*arguments, "--no-check-finite")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.isnan(load("x.npy")).all(axis=1), [False, False, True])
    assert_refused(mgrec(*arguments), 2, "exists", "--overwrite")

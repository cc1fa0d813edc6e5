"""The first page: its numbers are those of stored results, and its examples and tables hold."""

import inspect
import re
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import LocalCluster
from test_tables import CALLS, operand_of

import mgrec

README = Path(__file__).parents[3] / "README.md"
TEXT = README.read_text()
NDIMAGE = {
    "splines": (mgrec.ndimage.spline_filter, {}),
    "Gaussians": (mgrec.ndimage.gaussian_filter, {"sigma": 1.0}),
    "box filters": (mgrec.ndimage.uniform_filter, {}),
}


def table() -> dict[str, list[str]]:
    """Return the cells of the table of functions and arrays, by the first cell of a row."""
    lines = TEXT.split("## Functions and arrays\n")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    assert rows[0] == ["", "NumPy, CuPy", "Dask of either", "torch, jax", "xarray", "pandas"]
    return {row[0]: row[1:] for row in rows[2:]}


def functions_of(cell: str) -> list[str]:
    names = [name for name in re.findall(r"`(?:signal\.)?(\w+)`", cell) if name != "signal"]
    return [*NDIMAGE] if names == ["ndimage"] else names


def call(name, array):
    if name in NDIMAGE:
        function, options = NDIMAGE[name]
        return function(array, **options)
    function, operands, options = CALLS[name]
    if getattr(array, "dims", ())[1:] and "axis" in inspect.signature(function).parameters:
        # The last axis of blocks has the numbers of a step.
        options = {**options, "dim": array.dims[-2 if name == "solve_block_tridiagonal" else -1]}
    if name == "solve_banded":
        # Its matrix has as many columns as there are unknowns: the rows of a DataFrame.
        widths, ab = operands
        operands = widths, ab[:, : len(array)] if hasattr(array, "columns") else ab
    result = function(*operands, array, **options)
    if name == "factor_tridiagonal":
        return result.solve(array)
    return result.score if name == "smith_waterman" else result


@pytest.mark.quick
def test_the_table_has_all_functions():
    names = [name for cell in table() for name in functions_of(cell)]
    assert sorted(names) == sorted({*CALLS, *NDIMAGE})


@pytest.mark.parametrize("name", [n for cell in table() for n in functions_of(cell)])
@pytest.mark.parametrize("kind", ["numpy", "dask", "array_api_strict", "torch", "xarray", "pandas"])
def test_each_cell_of_the_table(name, kind):
    """`yes` is a result of the same type; arrays of jax take the path of the array API."""
    library = np if kind in ("numpy", "dask") else pytest.importorskip(kind)
    x = operand_of(name)
    array = {
        "numpy": lambda: x,
        "dask": lambda: da.from_array(x, chunks=-1),
        "array_api_strict": lambda: library.asarray(x),
        "torch": lambda: library.as_tensor(x),
        "xarray": lambda: library.DataArray(x),
        # The steps of a DataFrame are its rows, and zero-phase filters need more than three.
        "pandas": lambda: library.DataFrame(np.repeat(x, 8, 0)) if x.ndim == 2 else library.Series(x),
    }[kind]()
    (cells,) = (cells for cell, cells in table().items() if name in functions_of(cell))
    position = {"numpy": 0, "dask": 1, "array_api_strict": 2, "torch": 2, "xarray": 3, "pandas": 4}
    result, cell = call(name, array), cells[position[kind]]
    assert cell in ("yes", "no")
    if name != "smith_waterman":
        assert (type(result) is type(array)) == (cell == "yes")


def test_the_numbers_are_those_of_the_results(load):
    readme = load("published.readme")
    assert readme.filled(TEXT) == TEXT, "run python -m benchmarks.published"
    assert readme.numbers() in TEXT
    assert readme.filled("<!-- numbers -->\nold\n<!-- end of numbers -->").count("old") == 0


def test_the_figures_are_those_of_the_results(load):
    for name in ("chart", "scaling"):
        figure = load(f"published.{name}")
        assert figure.PATH.read_text() == figure.draw(), "run python -m benchmarks.published"


def test_the_figure_of_scaling_has_kernels_and_overhead(load):
    solves = [solve for group in load("published.scaling").groups().values() for solve in group]
    for solve in solves:
        assert 0 < solve.kernels <= solve.times
        assert 0 < solve.efficiency < 1


def test_the_lines_for_many_gpus_run_on_processors(monkeypatch):
    """With a cluster of threads for that of GPUs, NumPy for CuPy, and fewer steps of float64."""
    (block,) = (b for b in re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL) if "CUDA" in b)
    block = block.replace("import cupy, ", "import numpy as cupy\nimport ")
    block = block.replace("from dask_cuda import LocalCUDACluster\n", "")
    block = block.replace("2**32", "2**12").replace("2**30", "2**10")
    block = block.replace('"float32"', '"float64"')
    imports = re.search(r"```python\n(.*?)\n\n", TEXT, re.DOTALL)
    scope = {}
    exec(imports[1], scope)
    with LocalCluster(processes=False, n_workers=2, dashboard_address=None) as cluster:
        scope["LocalCUDACluster"] = lambda: cluster
        exec(block, scope)
        with scope["client"]:
            t, w, y = (np.asarray(scope[name]) for name in "twy")
    np.testing.assert_allclose(w, mgrec.linear_recurrence(0.99, t), rtol=1e-12)
    np.testing.assert_allclose(y, mgrec.signal.lfilter([0.25], [1.0, -0.75], t), rtol=1e-12)

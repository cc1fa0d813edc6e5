"""Tables of the documentation that repeat what the code says: these tests fail if one is stale."""

import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

import mgrec
from mgrec.core.backends import CPU
from mgrec.core.contract.grid import Grid, Swept, Traceback
from mgrec.core.contract.problem import Problem
from mgrec.core.contract.recurrence import Overlapping, Recurrence, TwoSided
from mgrec.core.contract.scan import Chain
from mgrec.distributed.arguments import problem_of
from mgrec.engines.cuda.backend import BACKEND
from mgrec.signal import decimate, ewm, filtfilt, lfilter, sosfilt, sosfiltfilt

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "mgrec"
SOS = [[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]]
TOPOLOGIES = {
    "traceback": Traceback,
    "swept": Swept,
    "grid": Grid,
    "two-sided": TwoSided,
    "chain": Chain,
    "overlapping": Overlapping,
}
"""A topology comes before those that it extends."""
X = np.ones((3, 40))
CALLS = {
    "linear_recurrence": (mgrec.linear_recurrence, (0.5,), {}),
    "rational_recurrence": (mgrec.rational_recurrence, (1.0, 0.5, 0.0), {"initial": 0.0}),
    "scan": (mgrec.scan, (mgrec.maps.max_plus, 0.5), {"initial": 0.0}),
    "weighted_scan": (mgrec.weighted_scan, (), {"weights": 0.5}),
    "lfilter": (lfilter, ([0.5], [1.0, -0.5]), {}),
    "sosfilt": (sosfilt, (SOS,), {}),
    "filtfilt": (filtfilt, ([0.5], [1.0, -0.5]), {}),
    "sosfiltfilt": (sosfiltfilt, (SOS,), {}),
    "decimate": (decimate, (), {"q": 2, "n": 2}),
    "ewm": (ewm, (), {"alpha": 0.5}),
    "solve_tridiagonal": (mgrec.solve_tridiagonal, (1.0, 4.0, 1.0), {}),
    "solve_banded": (mgrec.solve_banded, ((1, 1), np.ones((3, 40)) + np.eye(3, 40, 1)), {}),
    "solve_block_tridiagonal": (mgrec.solve_block_tridiagonal, (np.eye(3), 4 * np.eye(3), np.eye(3)), {}),
    "factor_tridiagonal": (mgrec.factor_tridiagonal, (1.0, 4.0), {}),
    "summed_area_table": (mgrec.summed_area_table, (), {}),
    "wavefront": (mgrec.wavefront, (), {"weights": (0.5, 0.5, 0.0)}),
    "sor": (mgrec.sor, (), {"omega": 1.5, "sweeps": 2}),
    "smith_waterman": (mgrec.smith_waterman, (np.ones(40, "u1"),), {"match": 1, "mismatch": -1, "gap": -1}),
}
"""A function, and its operands and options besides the array that follows the operands."""


def operand_of(name: str) -> np.ndarray:
    return {"smith_waterman": np.ones(40, "u1"), "solve_block_tridiagonal": X.T}.get(name, X)


def rows(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the first table after a heading."""
    text = (ROOT / "docs" / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in text.splitlines() if line.startswith("|")]
    for line in table[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def names_in(cell: str) -> set[str]:
    """Return the functions of a cell."""
    return {*re.findall(r"[`.](\w+)`", cell)} & {*CALLS}


def test_every_function_of_arrays_is_in_the_table() -> None:
    functions = {*vars(mgrec.signal), *mgrec.__all__}
    taking = {
        name
        for name in functions
        if hasattr(getattr(mgrec.signal, name, getattr(mgrec, name, None)), "labelled")
    }
    assert taking == {*CALLS}
    named = [names_in(cells[0]) for cells in rows(*ARRAYS) if "mgrec.plan" not in cells[0]]
    assert set().union(*named) == taking
    assert sum(map(len, named)) == len(taking)


ARRAYS = "guide/interoperability.md", "Array types of each function"


@pytest.mark.parametrize("name", sorted(CALLS))
def test_each_backend_has_kernels_as_the_table_says(name: str) -> None:
    (cells,) = (c for c in rows(*ARRAYS) if name in names_in(c[0]) and "mgrec.plan" not in c[0])
    assert cells[1].startswith("yes")
    function, operands, options = CALLS[name]
    build = getattr(function, "build", None)
    problem = build(*operands, operand_of(name), **options) if build else None
    if hasattr(problem, "recurrence"):
        family = problem.recurrence.family
        assert CPU.has_kernels(family)
        # On a GPU the recurrences of other families compute ewm.
        is_on_gpu = BACKEND.has_kernels(family) or name == "ewm"
        assert cells[3].startswith("yes") == is_on_gpu


def test_the_table_names_all_functions_that_plans_take() -> None:
    (cells,) = (cells for cells in rows(*ARRAYS) if "mgrec.plan" in cells[0])
    planned = set()
    for name, (function, operands, options) in CALLS.items():
        operand = da.from_array(operand_of(name), chunks=-1)
        with suppress(TypeError):
            if isinstance(problem_of(function, (*operands, operand), options), Problem):
                planned.add(name)
    assert names_in(cells[0]) == planned


def families_of(topology: str) -> set[str]:
    """Return the families whose recurrences are of a topology."""
    for path in SOURCE.rglob("recurrence.py"):
        import_module(".".join(("mgrec", *path.relative_to(SOURCE).with_suffix("").parts)))
    import_module("mgrec.grids.alignment.traceback")
    return {
        cls.family
        for cls in subclasses(Recurrence)
        if cls.__module__.startswith("mgrec.")
        and hasattr(cls, "family")
        and next((t for t, base in TOPOLOGIES.items() if issubclass(cls, base)), "") == topology
    }


def subclasses(cls: type) -> Iterator[type]:
    for child in cls.__subclasses__():
        yield child
        yield from subclasses(child)


def test_topologies_and_their_families() -> None:
    table = {cells[0]: cells for cells in rows("how/index.md", "Topologies")}
    assert {*table} == {*TOPOLOGIES}
    for topology, cells in table.items():
        assert {*re.findall(r"`([\w.]+)`", cells[2])} == families_of(topology)
    glossary = (ROOT / "docs/develop/glossary.md").read_text()
    (entry,) = re.findall(r"\ntopology\n: (.*)\n", glossary)
    assert {*re.findall(r"\*([\w-]+)\*", entry)} == {*TOPOLOGIES}


def test_the_walk_of_a_call_names_files_and_functions_that_exist() -> None:
    for _, files, functions in rows("develop/index.md", "One call, file by file"):
        paths = [SOURCE / name for name in re.findall(r"`([^`]+)`", files)]
        text = "".join(path.read_text() for path in paths)
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", functions):
            assert re.search(rf"(def|void|int|class) {name}\b", text), name


def test_the_layout_of_the_package_names_what_exists() -> None:
    contributing = (ROOT / "docs/develop/index.md").read_text()
    for name in re.findall(r"`((?:\w+/)+\w+\.(?:py|cuh))`", contributing):
        assert (SOURCE / name).exists() or (ROOT / name).exists(), name

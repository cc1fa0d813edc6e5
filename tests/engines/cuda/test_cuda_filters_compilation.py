"""Every kernel of a filter compiles for every architecture, on a machine without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mgrec.filters.cascade import Cascade
from mgrec.filters.cuda.phases import choose_layout
from mgrec.filters.cuda.program import print_propagation, print_repair, print_walk

FILTERS: dict[str, Any] = {
    "gain": Cascade.of_polynomials([3.0], [2.0]),
    "order 2": Cascade.of_polynomials([1.0, 2.0], [1.0, -0.5, 0.2]),
    "order 64": Cascade.of_polynomials([1.0], np.ones(65)),
    "feed-forward": Cascade.of_polynomials(np.ones(300), [1.0]),
    "sections": Cascade.of_sections(np.ones((8, 6))),
    "complex": Cascade.of_polynomials([1, 0.5j], [1, 0.2 - 0.3j, 0.1j]),
}
SHAPES = [(1, 5000, 1), (3, 5001, 1), (2, 500, 5), (1, 500, 40)]


def chosen(
    name: str, shape: Any, dtype: str, widened: bool = False, inputs: str | None = None
) -> Any:
    given = np.dtype(inputs) if inputs else None
    return choose_layout(FILTERS[name], shape, np.dtype(dtype), (True, True), widened, given)


@pytest.mark.parametrize("name", FILTERS)
def test_walks_compile(compile_text: Any, name: str, architecture: int) -> None:
    dtypes = ("complex64", "complex128") if name == "complex" else ("float32", "float64")
    for shape in SHAPES[: 1 if "4" in name or name == "feed-forward" else None]:
        for dtype in dtypes:
            layout = chosen(name, shape, dtype)
            compile_text(print_walk(layout, True, False), architecture)
    compile_text(print_walk(layout, False, False), architecture)
    for write in (True, False)[: 2 if architecture == 90 else 1]:
        compile_text(print_walk(layout, write, True), architecture)


@pytest.mark.parametrize("name", FILTERS)
def test_repairs_and_propagations_compile(compile_text: Any, name: str, architecture: int) -> None:
    dtype = "complex64" if name == "complex" else "float32"
    layout = chosen(name, SHAPES[0], dtype)
    compile_text(print_repair(layout, True, 1), architecture)
    if name != "feed-forward":
        compile_text(print_propagation(layout), architecture)
    if name == "order 2":
        layout = chosen(name, SHAPES[0], "complex64", widened=True)
        compile_text(print_repair(layout, False, 2), architecture)


# With asynchronous copies, and without them.
@pytest.mark.parametrize("architecture", [75, 90])
@pytest.mark.parametrize(("inputs", "dtype"), [("int16", "float64"), ("float16", "float32")])
def test_walks_over_narrow_samples_compile(
    compile_text: Any, inputs: str, dtype: str, architecture: int
) -> None:
    for shape in SHAPES if inputs == "int16" else SHAPES[:1]:
        layout = chosen("order 2", shape, dtype, inputs=inputs)
        compile_text(print_walk(layout, True, False), architecture)
    compile_text(print_repair(layout, True, 1), architecture)

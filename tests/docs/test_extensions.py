"""What the docs add to Sphinx: tables of results, formulas of docstrings, words for the search."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.extended


@pytest.fixture
def load(monkeypatch):
    pytest.importorskip("sphinx", reason="needs the extra docs: pip install '.[docs]'")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path, str(ROOT)])
    return lambda name: importlib.import_module(f"extensions.{name}")


@pytest.mark.parametrize(
    ("number", "shown"), [(1234.5, "1,234"), (12.345, "12.3"), (0.5, "0.5"), (0.00012, "0.0001"), (None, "")]
)
def test_numbers_have_three_digits(load, number, shown):
    assert load("results").shown(number) == shown


def test_a_star_takes_the_best_of_its_candidates(load):
    results, rows = load("results"), importlib.import_module("benchmarks.published.rows")
    pairs = [("CUB a", 0.5), ("CUB b", 0.75), ("torch", 0.9)]
    measured = tuple(rows.Row("x", name, {"fraction": f, "ms": 1 / f}) for name, f in pairs)
    result = rows.Result(Path("s.json"), "", "", "", measured)
    assert results._cell(result, "x", "CUB *", "fraction") == 0.75
    assert results._cell(result, "x", "CUB *", "ms") == 1 / 0.75
    assert results._cell(result, "x", "jax", "ms") is None


def test_bars_of_formulas_are_no_substitutions_and_examples_stay(load):
    lines = ["Where", "", "    |a| = 1", "    b = |c|", "", ">>> print('|')", "|", "", "``x | y``, |z|"]
    load("docstrings")._escape_formulas(None, "", "", None, None, lines)
    assert lines == [
        "Where",
        "",
        r"    | \|a\| = 1",
        r"    | b = \|c\|",
        "",
        ">>> print('|')",
        "|",
        "",
        r"``x | y``, \|z\|",
    ]


def test_citations_of_a_summary_go_below_it(load):
    lines = ["Sweep (Young [1]_), and", "on [2]_.", "", "More."]
    load("docstrings")._cite_below(None, "", "", None, None, lines)
    assert lines == ["Sweep (Young), and", "on.", "", "See [1]_, [2]_.", "", "More."]


def test_words_for_the_search_are_entries_of_the_index(load):
    keywords = load("keywords")
    text = "# Averages\n\n<!-- search: moving average, EMA -->\n\nText, <!-- search: no --> more."
    assert keywords.keywords(text) == ["moving average", "EMA"]
    source = [text]
    keywords._insert(None, "", source)
    assert "\n```{index} ! moving average, ! EMA\n```\n" in source[0]
    assert source[0].endswith("<!-- search: no --> more.")

"""Examples in pages of Markdown."""

import pytest


def parse_markdown(page, options=0):
    """Return the Python blocks of a page, whose results doctest compares with these options."""
    reason = "needs sybil: pip install '.[test]'"
    sybil = pytest.importorskip("sybil", reason=reason)
    blocks = pytest.importorskip("sybil.parsers.markdown", reason=reason)
    parser = blocks.PythonCodeBlockParser(doctest_optionflags=options)
    return sybil.Sybil([parser]).parse(page)

"""Chunks that hypothesis draws: of any sizes, empty ones among them; and a list of empty ones."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st

CHUNKS_SOME_EMPTY = [((0, 3), (4, 4)), ((1, 0, 2), (8,)), ((3,), (0, 5, 0, 3)), ((3, 0), (5, 3, 0))]
EMPTY_CHUNKS = [((0,), (5, 3)), ((0, 0), (8,)), ((3,), (0, 0)), ((0, 3), (0,)), ((0, 0), (0, 0))]
"""Chunks of rows and steps without any of either."""


@st.composite
def chunkings(draw, total, most=5):
    """The sizes of at most `most` chunks of an axis."""
    places = draw(st.lists(st.integers(0, total), max_size=most - 1))
    return tuple(b - a for a, b in pairwise([0, *sorted(places), total]))


def with_extended(names, *extended):
    """The names of cases, some of them for the extended run alone."""
    return [pytest.param(name, marks=pytest.mark.extended) if name in extended else name for name in names]

"""Chunks that hypothesis draws: of any sizes, empty ones among them."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st


@st.composite
def chunkings(draw, total, most=5):
    """The sizes of at most `most` chunks of an axis."""
    places = draw(st.lists(st.integers(0, total), max_size=most - 1))
    return tuple(b - a for a, b in pairwise([0, *sorted(places), total]))


def with_extended(names, *extended):
    """The names of cases, some of them for the extended run alone."""
    return [
        pytest.param(name, marks=pytest.mark.extended) if name in extended else name
        for name in names
    ]

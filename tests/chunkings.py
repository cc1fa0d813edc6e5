"""Chunks that hypothesis draws: of any sizes, empty ones among them."""

from itertools import pairwise

from hypothesis import strategies as st


@st.composite
def chunkings(draw, total, most=5):
    """The sizes of at most `most` chunks of an axis."""
    places = draw(st.lists(st.integers(0, total), max_size=most - 1))
    return tuple(b - a for a, b in pairwise([0, *sorted(places), total]))

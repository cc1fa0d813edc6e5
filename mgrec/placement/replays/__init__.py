"""Calls of a kind: what was checked, laid out and compiled for one is not for the next.

A kind is all that these depend on: the function, the shapes, strides, dtypes, devices and
alignments of CuPy arrays, the types of numbers that recurrences compute with, and the values of
everything else. It takes a microsecond an array to tell.
"""

from .calls import Call, call_of, ordered_leaves
from .replay import keep, replayed

__all__ = ["Call", "call_of", "keep", "ordered_leaves", "replayed"]

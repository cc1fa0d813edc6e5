"""Calls of a kind: what was checked, laid out and compiled for one is not for the next.

A kind is all that these depend on: the function, the shapes, strides and dtypes of CuPy arrays and
how they are aligned, or of short NumPy arrays, the types of numbers that recurrences compute with,
and the values of everything else. It takes a microsecond an array to tell.
"""

from .calls import Call, Function
from .preparation import is_awaited, keep, replayed

__all__ = ["Call", "Function", "is_awaited", "keep", "replayed"]

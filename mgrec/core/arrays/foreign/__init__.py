"""Interop with arrays of other libraries: conversion to native arrays, and of results back.

Validation raises :class:`ForeignArray` for such an array, and the public function is called again
with native arrays (see ``placement/foreign.py``): calls of NumPy and CuPy arrays have no overhead.
The type of an array identifies its library, which is never imported.
"""

from .kinds import ForeignArray, Library, Returned, library_of, refuse, returning, taken

__all__ = ["ForeignArray", "Library", "Returned", "library_of", "refuse", "returning", "taken"]

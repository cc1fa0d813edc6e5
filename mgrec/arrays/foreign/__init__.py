"""Arrays of other libraries: what they are at home, and how results become theirs.

The door meets one, raises :class:`ForeignArray`, and the public function is called again with what
it is at home (see ``placement/foreign.py``): calls of NumPy and CuPy arrays pay nothing for it. A
library is found by the type of its arrays and is never imported.
"""

from .kinds import ForeignArray, Library, Returned, library_of, refuse, returning, taken

__all__ = ["ForeignArray", "Library", "Returned", "library_of", "refuse", "returning", "taken"]

"""Prefixes of any associative operation by array operations, for arrays on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Elements = tuple[Any, ...]
"""Arrays with the same first axis, that of the steps."""
Compose = Callable[[Elements, Elements], Elements]


def prefixes(compose: Compose, elements: Elements) -> Elements:
    """Return the composition of all elements up to each one, along the first axis.

    ``compose(earlier, later)`` composes elements pairwise. It is called twice for each of
    log2(steps) levels, with 2 * steps elements in all.
    """
    steps = len(elements[0])
    if steps < 2:
        return elements
    pairs = compose(
        tuple([part[0 : steps - 1 : 2] for part in elements]),
        tuple([part[1::2] for part in elements]),
    )
    odd = prefixes(compose, pairs)
    count = (steps - 1) // 2
    even = compose(tuple([part[:count] for part in odd]), tuple([part[2::2] for part in elements]))
    return tuple(map(_interleave, elements, even, odd))


def _interleave(part: Any, even: Any, odd: Any) -> Any:
    result = np.empty_like(part, shape=(len(even) + 1 + len(odd), *odd.shape[1:]))
    result[0] = part[0]
    result[2::2] = even
    result[1::2] = odd
    return result

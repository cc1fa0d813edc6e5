"""Methods that need whole systems in a chunk."""

from __future__ import annotations

from typing import Any

WITHOUT_PIVOTING = ("thomas", "cyclic-reduction", "pcr")


def check_whole(method: str, named: dict[str, Any], axis: int, ndim: int) -> None:
    """Raise where a method cannot cross the chunks that an operand has along the axis.

    Parameters
    ----------
    method : str
    named : dict of arrays
    axis : int
        0 or more, of `ndim`.
    ndim : int
        Axes of the broadcast operands.
    """
    if method not in WITHOUT_PIVOTING:
        return
    for name, operand in named.items():
        own = axis - (ndim - getattr(operand, "ndim", 0))
        chunks = getattr(operand, "chunks", ())
        count = len(chunks[own]) if chunks and own >= 0 else 1
        if count > 1:
            raise ValueError(
                f"method {method!r} must have whole systems in a chunk; {name} has {count} chunks "
                f"along axis {axis}: rechunk it with {name}.rechunk({{{own}: -1}}), or take "
                f"method 'partition'"
            )

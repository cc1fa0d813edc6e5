"""Substitution matrices of proteins, as NCBI published them.

BLOSUM (Henikoff & Henikoff 1992) and PAM (Dayhoff et al. 1978), from
ftp.ncbi.nlm.nih.gov/blast/matrices, in the public domain.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

NAMES = ("BLOSUM45", "BLOSUM50", "BLOSUM62", "BLOSUM80", "BLOSUM90", "PAM30", "PAM70", "PAM250")


@cache
def load(name: str) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """The letters of a matrix, and its scores.

    Examples
    --------
    >>> letters, scores = load("BLOSUM62")
    >>> letters[:4], scores[0][:4]
    ('ARND', (4, -1, -2, -2))
    """
    text = files(__package__).joinpath(f"{name}.txt").read_text()
    head, *rows = (line for line in text.splitlines() if not line.startswith("#"))
    return head.replace(" ", ""), tuple(tuple(map(int, row.split()[1:])) for row in rows)

"""Sequences in FASTA and FASTQ files, read by Biopython."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from . import hints
from .failure import BadInput

_KINDS = {
    **dict.fromkeys((".fasta", ".fa", ".fna", ".faa", ".ffn"), "fasta"),
    **dict.fromkeys((".fastq", ".fq"), "fastq"),
}


@dataclass(frozen=True)
class Record:
    """One sequence.

    Attributes
    ----------
    name, letters : str
        As the file has them.
    compared : str
        The letters as they are compared.
    quality : str
        That of a FASTQ file, in the letters of SAM, else "*".
    """

    name: str
    letters: str
    compared: str
    quality: str = "*"

    def without_n(self) -> Record:
        """Return the record with each N replaced, when compared, by what no other record has."""
        return replace(self, compared=self.compared.translate(dict.fromkeys(b"Nn", 0)))


def are_nucleotides(records: Sequence[Record]) -> bool:
    """Return whether at least nine in ten letters are A, C, G, T, U or N."""
    text = "".join(record.letters for record in records).upper()
    return 10 * sum(map(text.count, "ACGTUN")) >= 9 * len(text)


def read(path: Path, case_sensitive: bool) -> list[Record]:
    """Return all records of a file, which may be compressed by gzip."""
    kind = _KINDS.get(Path(path.stem if path.suffix == ".gz" else path.name).suffix)
    if kind is None:
        raise BadInput(f"{path} must end in {', '.join(_KINDS)}, or one of those and .gz")
    try:
        from Bio import SeqIO
    except ImportError:
        raise BadInput(f"align needs Biopython: {hints.install('align')}") from None
    try:
        with _opened(path) as file:
            records = [_record(each, case_sensitive) for each in SeqIO.parse(file, kind)]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read as {kind.upper()}: {error}") from error
    if not records:
        raise BadInput(f"{path} has no sequences")
    return records


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield file


def _record(read: Any, case_sensitive: bool) -> Record:
    scores = read.letter_annotations.get("phred_quality")
    quality = "*" if not scores else "".join(chr(33 + min(score, 93)) for score in scores)
    letters = str(read.seq)
    return Record(read.id, letters, letters if case_sensitive else letters.upper(), quality)

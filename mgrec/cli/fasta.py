"""Sequences in FASTA and FASTQ files, read by Biopython."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    """One sequence; `quality` is that of a FASTQ file, in the letters of SAM, else "*"."""

    name: str
    letters: str
    quality: str = "*"


def read(path: Path) -> list[Record]:
    """All records of a file, which may be compressed by gzip."""
    kind = _KINDS.get(Path(path.stem if path.suffix == ".gz" else path.name).suffix)
    if kind is None:
        raise BadInput(f"{path} must end in {', '.join(_KINDS)}, or one of those and .gz")
    try:
        from Bio import SeqIO
    except ImportError:
        raise BadInput(f"align needs Biopython: {hints.install('align')}") from None
    try:
        with _opened(path) as file:
            records = [_record(each) for each in SeqIO.parse(file, kind)]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read as {kind.upper()}: {error}") from error
    if not records:
        raise BadInput(f"{path} has no sequences")
    return records


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield file


def _record(read: Any) -> Record:
    scores = read.letter_annotations.get("phred_quality")
    quality = "*" if not scores else "".join(chr(33 + min(score, 93)) for score in scores)
    return Record(read.id, str(read.seq), quality)

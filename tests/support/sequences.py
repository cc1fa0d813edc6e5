"""Real sequences, from tests/support/sequence_files."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "sequence_files"


def read(name):
    """The records of a FASTA file, by their names."""
    parse = pytest.importorskip("Bio.SeqIO").parse
    with (FOLDER / f"{name}.fasta").open() as file:
        return {record.id: str(record.seq) for record in parse(file, "fasta")}

"""``mgrec align``: scores of sequences in FASTA or FASTQ files."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from ..grids.alignment.api import smith_waterman
from .cluster import bars
from .failure import EXIT_CODES, BadInput, in_one_line
from .machine import require

Records = Sequence[tuple[str, str]]


@click.command("align", epilog=EXIT_CODES)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--matrix", help="BLOSUM45, 50, 62, 80 or 90, or PAM30, 70 or 250.")
@click.option("--match", type=float, help="Score of two letters that are equal.")
@click.option("--mismatch", type=float, help="Score of two letters that are not.")
@click.option("--gap", type=float, required=True, help="Score of the first letter of a gap.")
@click.option("--extend", type=float, help="Score of each further one [default: as --gap].")
@click.option(
    "--mode",
    default="local",
    show_default=True,
    help="local: parts; global: whole sequences; semi-global: whole ones whose ends are free.",
)
@click.option("--cigar", is_flag=True, help="Add columns of where alignments begin, and CIGAR.")
def align(a: Path, b: Path, cigar: bool, **scoring: Any) -> None:
    """Align every sequence of A with every one of B.

    A and B are FASTA files, or FASTQ (.fastq, .fq), which may be compressed (.gz). One of them may
    be -, FASTA on standard input. Standard output gets a table, separated by tabs: a line a pair,
    positions counted from 1.

    Scores are those of a matrix (--matrix BLOSUM62), or of --match and --mismatch; --gap is that
    of the first letter of a gap and --extend of each further one, all as they are added: below 0.
    Lower-case letters count as capitals. With --match, the N of nucleotides mismatches every
    letter, N included: sequences are nucleotides if nine in ten letters are A, C, G, T, U or N.
    """
    with in_one_line("the table is not complete"):
        require("Bio", "align", "align")
        for name, value in scoring.items():
            if isinstance(value, float) and value.is_integer():
                scoring[name] = int(value)  # integers are exact
        try:
            smith_waterman("", "", **scoring)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from error
        if str(a) == str(b) == "-":
            raise BadInput("only one of A and B may be -, standard input")
        if sys.stdout is None:
            raise BadInput("standard output is closed: the table needs it")
        queries, targets = read(a), read(b)
        if scoring["matrix"] is None and _are_nucleotides([*queries, *targets]):
            # Replace N by a letter that no query has.
            targets = [(name, letters.replace("N", "\0")) for name, letters in targets]
        _print(queries, targets, cigar, scoring)


def read(path: Path) -> list[tuple[str, str]]:
    """Return the names and the letters, as capitals, of all records of a file."""
    from Bio import SeqIO

    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    file_format = "fastq" if suffix in (".fastq", ".fq") else "fasta"
    source = "standard input" if str(path) == "-" else str(path)
    try:
        with _opened(path) as file:
            records = [(x.id, str(x.seq).upper()) for x in SeqIO.parse(file, file_format)]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = str(error)
        if file_format == "fasta" and type(error) is ValueError:
            reason = "its first character must be >"  # Biopython advises, in 15 lines
        raise BadInput(f"{source} cannot be read as {file_format.upper()}: {reason}") from error
    if not records:
        raise BadInput(f"{source} has no sequences")
    # Control characters would be commands of a terminal.
    return [(re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", name), letters) for name, letters in records]


def _opened(path: Path) -> Any:
    if str(path) == "-":
        if sys.stdin is None:
            raise BadInput("standard input is closed")
        return nullcontext(sys.stdin)
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def _are_nucleotides(records: Records) -> bool:
    text = "".join(letters for _, letters in records)
    return 10 * sum(map(text.count, "ACGTUN")) >= 9 * len(text)


def _print(queries: Records, targets: Records, cigar: bool, scoring: Any) -> None:
    """Print one line for each pair."""
    columns = ["query", "target", "score", "query_end", "target_end"]
    columns += ["query_begin", "target_begin", "cigar"] if cigar else []
    sys.stdout.write("\t".join(columns) + "\n")
    names, letters = zip(*targets, strict=True)
    with bars() as progress:
        total = len(queries) * len(targets)
        bar = progress.add_task("Aligning", total=total, unit="pairs")
        for query_name, query in queries:
            rows = _align(query, list(letters), cigar, scoring)
            for row in zip(names, *rows, strict=True):
                sys.stdout.write("\t".join(map(str, (query_name, *row))) + "\n")
            progress.advance(bar, len(targets))


def _align(query: str, targets: list[str], cigar: bool, scoring: Any) -> list[Any]:
    """Return scores, ends and, if `cigar`, starts and CIGARs of a query with each target."""
    if not cigar:
        scores = smith_waterman(query, targets, **scoring)
        return [scores.score, scores.query_end + 1, scores.target_end + 1]
    paths = smith_waterman(query, targets, output="alignment", **scoring)
    ends = ("query_end", "target_end", "query_begin", "target_begin")
    positions = [[getattr(path, end) + 1 for path in paths] for end in ends]
    return [[path.score for path in paths], *positions, [path.cigar for path in paths]]

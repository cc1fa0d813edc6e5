"""``mgrec align``: scores of sequences in FASTA or FASTQ files."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import click

from ..grids.alignment.api import smith_waterman
from .cluster import bars
from .failure import EXIT_CODES, BadInput, in_one_line
from .files import check_output, replaced_when_complete
from .machine import require

Records = Sequence[tuple[str, str]]


@click.command("align", short_help="Align sequences in FASTA files.", epilog=EXIT_CODES)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="OUT",
    help="The table, separated by tabs [default: standard output].",
)  # fmt: skip
@click.option("--matrix", help="BLOSUM45, 50, 62, 80 or 90, or PAM30, 70 or 250.")
@click.option("--match", type=float, help="Score of two letters that are equal.")
@click.option("--mismatch", type=float, help="Score of two letters that are not.")
@click.option("--gap", type=float, required=True, help="Score of the first letter of a gap.")
@click.option("--extend", type=float, help="Score of each further one [default: as --gap].")
@click.option(
    "--mode", default="local", show_default=True,
    help="local: parts; global: whole sequences; semi-global: whole ones whose ends are free.",
)  # fmt: skip
@click.option("--pairs", is_flag=True, help="The first of A with the first of B, and so on.")
@click.option("--cigar", is_flag=True, help="Add columns of where alignments begin, and CIGAR.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
def align(
    a: Path, b: Path, out: Path | None, pairs: bool, cigar: bool, overwrite: bool, **scoring: Any
) -> None:
    """Align every sequence of A with every one of B, or with its partner.

    A and B are FASTA files, or FASTQ (.fastq, .fq), which may be compressed (.gz). The result is a
    table: a line a pair, positions counted from 1.

    Scores are those of a matrix (--matrix BLOSUM62), or of --match and --mismatch; --gap is that
    of the first letter of a gap and --extend of each further one, all as they are added: below 0.
    Lower-case letters count as capitals. With --match, the N of nucleotides mismatches every
    letter, N included: sequences are nucleotides if nine in ten letters are A, C, G, T, U or N.
    """
    state = "the table is not complete" if out is None else f"{out} was not written"
    with in_one_line(state), ExitStack() as stack:
        if out is not None:
            check_output(out, overwrite)
        require("Bio", "align", "align")
        for name, value in scoring.items():
            if isinstance(value, float) and value.is_integer():
                scoring[name] = int(value)  # integers are exact
        try:
            smith_waterman("", "", **scoring)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from error
        queries, targets = read(a), read(b)
        if pairs and len(queries) != len(targets):
            counts = f"{len(queries)} and {len(targets)}"
            raise BadInput(f"--pairs wants as many sequences in {a} as in {b}; got {counts}")
        if scoring["matrix"] is None and _are_nucleotides([*queries, *targets]):
            # Replace N by a letter that no query has.
            targets = [(name, letters.replace("N", "\0")) for name, letters in targets]
        file: Any = sys.stdout
        if out is not None:
            part = stack.enter_context(replaced_when_complete(out, overwrite))
            file = stack.enter_context(part.open("w"))
        groups = [(queries, targets)] if pairs else [([query], targets) for query in queries]
        _write(file, groups, cigar, scoring)


def read(path: Path) -> list[tuple[str, str]]:
    """Return the names and the letters, as capitals, of all records of a file."""
    from Bio import SeqIO

    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    file_format = "fastq" if suffix in (".fastq", ".fq") else "fasta"
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            records = [(x.id, str(x.seq).upper()) for x in SeqIO.parse(file, file_format)]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BadInput(f"{path} cannot be read as {file_format.upper()}: {error}") from error
    if not records:
        raise BadInput(f"{path} has no sequences")
    return records


def _are_nucleotides(records: Records) -> bool:
    text = "".join(letters for _, letters in records)
    return 10 * sum(map(text.count, "ACGTUN")) >= 9 * len(text)


def _write(file: TextIO, groups: Sequence[Any], cigar: bool, scoring: Any) -> None:
    """Write one line for each pair. A group is a list of pairs, or one query and its targets."""
    columns = ["query", "target", "score", "query_end", "target_end"]
    columns += ["query_begin", "target_begin", "cigar"] if cigar else []
    file.write("\t".join(columns) + "\n")
    with bars() as progress:
        total = sum(len(targets) for _, targets in groups)
        bar = progress.add_task("Aligning", total=total, unit="pairs")
        for queries, targets in groups:
            queries = list(queries) * (len(targets) // len(queries))
            query_names, query_letters = zip(*queries, strict=True)
            target_names, target_letters = zip(*targets, strict=True)
            rows = _align(list(query_letters), list(target_letters), cigar, scoring)
            for row in zip(query_names, target_names, *rows, strict=True):
                file.write("\t".join(map(str, row)) + "\n")
            progress.advance(bar, len(targets))


def _align(queries: list[str], targets: list[str], cigar: bool, scoring: Any) -> list[Any]:
    """Return scores, ends and, if `cigar`, starts and CIGARs of pairs."""
    if not cigar:
        scores = smith_waterman(queries, targets, **scoring)
        return [scores.score, scores.query_end + 1, scores.target_end + 1]
    paths = smith_waterman(queries, targets, output="alignment", **scoring)
    ends = ("query_end", "target_end", "query_begin", "target_begin")
    positions = [[getattr(path, end) + 1 for path in paths] for end in ends]
    return [[path.score for path in paths], *positions, [path.cigar for path in paths]]

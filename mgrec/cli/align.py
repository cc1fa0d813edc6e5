"""``mgrec align``: alignments of sequences in files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np
from rich.console import Console

from ..recurrences.alignment import smith_waterman
from . import failure, fasta, operands, progress, sam
from .fasta import Record
from .output import check_output, in_place_when_complete

HELP = f"""Align every sequence of A with every one of B, or with its partner.

A and B are FASTA or FASTQ files (.fasta, .fa, .fna, .faa, .fastq, .fq), which may be compressed
(.gz). OUT is a .sam file of alignments, B being the references, with the score as tag AS; or a
.tsv file of scores and of the positions where alignments end, counted from 1. Without OUT the
table goes to standard output.

Scores are those of a matrix (--matrix BLOSUM62), or of --match and --mismatch; --gap is that of
the first letter of a gap and --extend of each further one, all as they are added: below 0.

Lower-case letters count as capitals; with --match, --case-sensitive makes them differ. With
--match, the N of nucleotides mismatches every letter, N included. Sequences are nucleotides if at
least nine in ten letters of A and B are A, C, G, T, U or N.

OUT appears when it is complete, and not before.

{failure.EXIT_CODES}"""

_COLUMNS = "query\ttarget\tscore\tquery_end\ttarget_end\n"
# Pairs whose scores are computed in one call.
_TOGETHER = 1024
Pairs = tuple[Sequence[Record], Sequence[Record]]


@click.command("align", help=HELP, short_help="Align sequences in FASTA files.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="OUT",
    help="The result: .sam or .tsv [default: a table on standard output].",
)  # fmt: skip
@click.option("--matrix", help="BLOSUM45, 50, 62, 80 or 90, or PAM30, 70 or 250.")
@click.option("--match", type=float, help="Score of two letters that are equal.")
@click.option("--mismatch", type=float, help="Score of two letters that are not.")
@click.option("--case-sensitive", is_flag=True, help="With --match: a is not equal to A.")
@click.option("--gap", type=float, required=True, help="Score of the first letter of a gap.")
@click.option("--extend", type=float, help="Score of each further one [default: as --gap].")
@click.option(
    "--mode", type=click.Choice(["local", "global", "semi-global"]), default="local",
    show_default=True, help="Parts, whole sequences, or whole ones whose ends are free.",
)  # fmt: skip
@click.option("--pairs", is_flag=True, help="The first of A with the first of B, and so on.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
def align(
    a: Path, b: Path, out: Path | None, case_sensitive: bool, pairs: bool, overwrite: bool,
    mode: str, **scores: Any,
) -> None:  # fmt: skip
    left = "the table is not complete" if out is None else f"{out} was not written"
    with failure.in_one_line(left):
        if out is not None:
            if out.suffix not in (".sam", ".tsv"):
                raise failure.BadInput(f"{out} must end in .sam or .tsv")
            check_output(out, overwrite)
        given = {name: _whole(value) for name, value in scores.items()} | {"mode": mode}
        with operands.refused():
            smith_waterman("", "", **given)
        queries, targets = fasta.read(a, case_sensitive), fasta.read(b, case_sensitive)
        if pairs and len(queries) != len(targets):
            raise failure.BadInput(
                f"--pairs wants as many sequences in {a} as in {b}; got {len(queries)} and "
                f"{len(targets)}"
            )
        is_sam = out is not None and out.suffix == ".sam"
        if is_sam:
            sam.check_names(queries, targets)
        if given["matrix"] is None and fasta.are_nucleotides([*queries, *targets]):
            targets = [target.without_n() for target in targets]
        with _opened(out, overwrite) as file:
            file.write(sam.header(targets, shlex.join(sys.argv)) if is_sam else _COLUMNS)
            groups = _partners(queries, targets) if pairs else _all(queries, targets)
            _write(file, groups, _cells(queries, targets, pairs), is_sam, not pairs, given)


def _whole(score: Any) -> Any:
    """A score as an integer if it is one: those are exact."""
    return int(score) if isinstance(score, float) and score.is_integer() else score


@contextmanager
def _opened(out: Path | None, overwrite: bool) -> Iterator[TextIO]:
    if out is None:
        with failure.quiet_if_closed(sys.stdout):
            yield sys.stdout
        return
    with in_place_when_complete(out, overwrite) as part, part.open("w") as file:
        yield file


def _all(queries: Sequence[Record], targets: Sequence[Record]) -> Iterator[Pairs]:
    """A query with each target."""
    return (([query] * len(targets), targets) for query in queries)


def _partners(queries: Sequence[Record], targets: Sequence[Record]) -> Iterator[Pairs]:
    """As many pairs as are scored together."""
    for begin in range(0, len(queries), _TOGETHER):
        part = slice(begin, begin + _TOGETHER)
        yield queries[part], targets[part]


def _cells(queries: Sequence[Record], targets: Sequence[Record], pairs: bool) -> int:
    n, m = ([len(record.letters) for record in records] for records in (queries, targets))
    return sum(map(int.__mul__, n, m)) if pairs else sum(n) * sum(m)


def _write(
    file: TextIO,
    groups: Iterator[Pairs],
    cells: int,
    is_sam: bool,
    one_is_best: bool,
    scores: dict[str, Any],
) -> None:
    """Lines of all pairs; of a query with several targets, one is its primary line."""
    write = _write_sam if is_sam else _write_table
    with progress.bars(Console(stderr=True)) as shown:
        bar = progress.add_bar(shown, "Aligning", cells, "cells")
        for queries, targets in groups:
            texts = [[record.compared for record in records] for records in (queries, targets)]
            with operands.refused():
                found = smith_waterman(*texts, **scores)
            best = int(np.argmax(found.score)) if one_is_best else None
            for k, (query, target) in enumerate(zip(queries, targets, strict=True)):
                write(file, query, target, found, k, best in (None, k), scores)
                progress.advance(shown, bar, len(query.letters) * len(target.letters))


def _write_table(
    file: TextIO, query: Record, target: Record, found: Any, k: int, is_primary: bool, scores: Any
) -> None:
    ends = found.query_end[k] + 1, found.target_end[k] + 1
    fields = query.name, target.name, found.score[k], *ends
    file.write("\t".join(map(str, fields)) + "\n")


def _write_sam(
    file: TextIO, query: Record, target: Record, found: Any, k: int, is_primary: bool, scores: Any
) -> None:
    traced = smith_waterman(query.compared, target.compared, output="alignment", **scores)
    file.write(sam.line(query, target, traced, is_primary))

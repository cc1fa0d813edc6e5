"""Alignments as lines of a SAM file (Sequence Alignment/Map format, version 1.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .. import __version__
from .failure import BadInput
from .fasta import Record

# What the specification calls RNAME and QNAME.
_REFERENCE = re.compile(r"[0-9A-Za-z!#$%&+./:;?@^_|~-][0-9A-Za-z!#$%&*+./:;=?@^_|~-]*")
_QUERY = re.compile(r"[!-?A-~]{1,254}")
_UNMAPPED, _SECONDARY = 0x4, 0x100
# A quality of mapping that is not known.
_UNKNOWN = 255


def check_names(queries: Sequence[Record], targets: Sequence[Record]) -> None:
    """Raise unless SAM can name them."""
    for names, pattern in ((queries, _QUERY), (targets, _REFERENCE)):
        for record in names:
            if not pattern.fullmatch(record.name):
                raise BadInput(f"SAM cannot name a sequence {record.name!r}: rename it")
    seen: set[str] = set()
    for record in targets:
        if record.name in seen:
            raise BadInput(f"SAM wants different names; the targets have two of {record.name!r}")
        seen.add(record.name)


def header(targets: Iterable[Record], command: str) -> str:
    """The first lines of a file."""
    lines = ["@HD\tVN:1.6\tSO:unsorted"]
    lines += [f"@SQ\tSN:{target.name}\tLN:{len(target.letters)}" for target in targets]
    lines += [f"@PG\tID:mgrec\tPN:mgrec\tVN:{__version__}\tCL:{command}"]
    return "".join(f"{line}\n" for line in lines)


def line(query: Record, target: Record, found: Any, is_primary: bool) -> str:
    """One alignment; a query that is not aligned is unmapped.

    Gaps of the target at its ends, which global alignments have, are left out: a line begins
    and ends with a letter of the query. Letters of the query beyond the alignment are clipped
    softly.
    """
    kind = "f" if isinstance(found.score, float) else "i"
    tag = f"AS:{kind}:{found.score}"
    runs = re.findall(r"(\d+)([=XID])", found.cigar)
    position = found.target_begin + 1
    if runs and runs[0][1] == "D":
        position += int(runs.pop(0)[0])
    if runs and runs[-1][1] == "D":
        runs.pop()
    if not any(kind in "=X" for _, kind in runs):
        flag = _UNMAPPED if is_primary else _UNMAPPED | _SECONDARY
        fields = [query.name, flag, "*", 0, 0, "*", "*", 0, 0, query.letters or "*", query.quality]
        return "\t".join(map(str, [*fields, tag])) + "\n"
    cigar = "".join(map("".join, runs))
    clips = found.query_begin, len(query.letters) - 1 - found.query_end
    cigar = "".join((_clipped(clips[0]), cigar, _clipped(clips[1])))
    fields = [
        query.name, 0 if is_primary else _SECONDARY, target.name, position, _UNKNOWN, cigar, "*", 0,
        0, query.letters, query.quality,
    ]  # fmt: skip
    return "\t".join(map(str, [*fields, tag])) + "\n"


def _clipped(count: int) -> str:
    return f"{count}S" if count else ""

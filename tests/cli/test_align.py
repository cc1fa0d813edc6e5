"""``mgrec align``: tables of scores and alignments, and honest failures."""

import gzip
from pathlib import Path

import pytest
from sequences import FOLDER, read

from mgrec import smith_waterman
from mgrec.cli.align import align
from mgrec.cli.failure import BadInput

GLOBINS, ORCHIDS = FOLDER / "globins.fasta", FOLDER / "orchids.fasta"
BLOSUM = ("--matrix", "BLOSUM62", "--gap", -11, "--extend", -1)
SCORES = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
LETTERS = ("--match", 2, "--mismatch", -3, "--gap", -5)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.extended
def test_scores_by_a_matrix(mgrec):
    result = mgrec("align", GLOBINS, GLOBINS, *BLOSUM)
    assert result.exit_code == 0, result.output
    texts = read("globins")
    lines = rows(result.stdout)[1:]
    assert [tuple(line[:2]) for line in lines] == [(a, b) for a in texts for b in texts]
    for query, target, *numbers in lines:
        score, *ends = smith_waterman(texts[query], texts[target], **SCORES)
        assert [int(number) for number in numbers] == [score, *(end + 1 for end in ends)]


@pytest.mark.extended
def test_alignments_of_compressed_genes(mgrec):
    with gzip.open("genes.fa.gz", "wt") as file:
        file.write(ORCHIDS.read_text())
    result = mgrec("align", "genes.fa.gz", ORCHIDS, *LETTERS, "--mode", "global", "--cigar")
    assert result.exit_code == 0, result.output
    head, *lines = rows(result.stdout)
    assert head[5:] == ["query_begin", "target_begin", "cigar"]
    same = [line for line in lines if line[0] == line[1]]
    assert len(same) ** 2 == len(lines)
    for line, (name, text) in zip(same, read("orchids").items(), strict=True):
        n = str(len(text))
        assert line == [name, name, str(2 * len(text)), n, n, "1", "1", f"{n}="]


def test_names_send_no_commands_to_a_terminal(mgrec):
    Path("a.fa").write_text(">\x1b[2Ja\x07\x9bb\nACGT\n")
    result = mgrec("align", "a.fa", "a.fa", *LETTERS)
    assert result.exit_code == 0, result.output
    assert rows(result.stdout)[1][:2] == ["?[2Ja??b"] * 2


def test_standard_input(mgrec):
    Path("b.fa").write_text(">b\nACGT\n")
    result = mgrec("align", "-", "b.fa", *LETTERS, input=">a\nacgt\n")
    assert rows(result.stdout)[1] == ["a", "b", "8", "4", "4"]
    result = mgrec("align", "-", "-", *LETTERS)
    assert result.exit_code == 2
    assert "only one of A and B" in result.stderr


@pytest.mark.parametrize("text", ["@a\nACGT\n+\nIIII\n", "ACGT\n"])
def test_standard_input_that_is_not_fasta(mgrec, text):
    Path("b.fa").write_text(">b\nACGT\n")
    result = mgrec("align", "-", "b.fa", *LETTERS, input=text)
    assert result.exit_code == 2
    reason = "standard input cannot be read as FASTA: its first character must be >"
    assert result.stderr.strip() == f"Error: {reason}"


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_standard_files_that_are_closed(monkeypatch, name):
    Path("b.fa").write_text(">b\nACGT\n")
    options = {"matrix": None, "match": 2.0, "mismatch": -1.0, "gap": -2.0, "extend": None}
    message = f"standard {name.removeprefix('std')}put is closed"
    with monkeypatch.context() as patch, pytest.raises(BadInput, match=message):
        patch.setattr(f"sys.{name}", None)
        align.callback(Path("-"), Path("b.fa"), cigar=False, mode="local", **options)


@pytest.mark.parametrize(
    ("a", "b", "scores"),
    [
        (">soft\nacgtnn\n>hard\nACGTNN\n", ">b\nACGTNN\n", [8, 8]),  # N of nucleotides
        (">a\nMKNNLV\n", ">b\nmknnlv\n", [12]),  # N of a protein is a letter
    ],
)
def test_case_and_n(mgrec, a, b, scores):
    Path("a.fa").write_text(a)
    Path("b.fa").write_text(b)
    result = mgrec("align", "a.fa", "b.fa", *LETTERS)
    assert [int(row[2]) for row in rows(result.stdout)[1:]] == scores


def test_a_table_of_reads(mgrec):
    Path("reads.fastq").write_text("@one\nWWAW\n+\nIIII\n@none\nC\n+\n#\n")
    Path("target.fasta").write_text(">target\nAAWWWW\n")
    result = mgrec("align", "reads.fastq", "target.fasta", *LETTERS)
    assert result.exit_code == 0, result.output
    assert " pairs" in result.stderr
    assert rows(result.stdout) == [
        ["query", "target", "score", "query_end", "target_end"],
        ["one", "target", "4", "4", "3"],
        ["none", "target", "0", "0", "0"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.fasta", GLOBINS, *BLOSUM], "no.fasta cannot be read"),
        (["empty.fasta", GLOBINS, *BLOSUM], "empty.fasta has no sequences"),
        ([GLOBINS, GLOBINS, "--gap", -1], "match and mismatch, or matrix"),
        ([GLOBINS, GLOBINS, "--matrix", "B62", "--gap", -1], "matrix must be one of"),
        ([GLOBINS, GLOBINS, "--matrix", "BLOSUM62", "--gap", 1], "gap must be at most 0"),
        ([GLOBINS, "letters.fasta", *BLOSUM], "letter"),
    ],
)
def test_what_is_refused(mgrec, arguments, message):
    Path("empty.fasta").touch()
    Path("letters.fasta").write_text(">a\nW\u0142W\n")
    result = mgrec("align", *arguments)
    assert result.exit_code != 0
    assert message in result.output

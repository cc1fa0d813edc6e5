"""``mgrec align``: tables of scores and alignments, and honest failures."""

import gzip
from pathlib import Path

import pytest
from sequences import FOLDER, read

from mgrec import smith_waterman

GLOBINS, ORCHIDS = FOLDER / "globins.fasta", FOLDER / "orchids.fasta"
BLOSUM = ("--matrix", "BLOSUM62", "--gap", -11, "--extend", -1)
SCORES = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
LETTERS = ("--match", 2, "--mismatch", -3, "--gap", -5)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.extended
def test_scores_by_a_matrix(mgrec):
    result = mgrec("align", GLOBINS, GLOBINS, *BLOSUM, "-o", "scores.tsv")
    assert result.exit_code == 0, result.output
    texts = read("globins")
    lines = rows(Path("scores.tsv").read_text())[1:]
    assert [tuple(line[:2]) for line in lines] == [(a, b) for a in texts for b in texts]
    for query, target, *numbers in lines:
        score, *ends = smith_waterman(texts[query], texts[target], **SCORES)
        assert [int(number) for number in numbers] == [score, *(end + 1 for end in ends)]


@pytest.mark.extended
def test_alignments_of_compressed_genes_in_pairs(mgrec):
    with gzip.open("genes.fa.gz", "wt") as file:
        file.write(ORCHIDS.read_text())
    options = ("--mode", "global", "--pairs", "--cigar")
    result = mgrec("align", "genes.fa.gz", ORCHIDS, *LETTERS, *options)
    assert result.exit_code == 0, result.output
    head, *lines = rows(result.stdout)
    assert head[5:] == ["query_begin", "target_begin", "cigar"]
    for line, (name, text) in zip(lines, read("orchids").items(), strict=True):
        n = str(len(text))
        assert line == [name, name, str(2 * len(text)), n, n, "1", "1", f"{n}="]


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


@pytest.mark.parametrize("out", ["out.tsv", None])
def test_a_table_of_reads(mgrec, out):
    Path("reads.fastq").write_text("@one\nWWAW\n+\nIIII\n@none\nC\n+\n#\n")
    Path("target.fasta").write_text(">target\nAAWWWW\n")
    words = ("align", "reads.fastq", "target.fasta", *LETTERS, *(["-o", out] if out else []))
    result = mgrec(*words)
    assert result.exit_code == 0, result.output
    assert " pairs" in result.stderr
    assert rows(Path(out).read_text() if out else result.stdout) == [
        ["query", "target", "score", "query_end", "target_end"],
        ["one", "target", "4", "4", "3"],
        ["none", "target", "0", "0", "0"],
    ]
    if out:
        again = mgrec(*words)
        assert again.exit_code == 2 and "exists: pass --overwrite" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.fasta", GLOBINS, *BLOSUM], "no.fasta cannot be read"),
        (["empty.fasta", GLOBINS, *BLOSUM], "empty.fasta has no sequences"),
        ([GLOBINS, GLOBINS, *BLOSUM, "-o", "gone/out.tsv"], "the folder of gone/out.tsv"),
        ([GLOBINS, GLOBINS, "--gap", -1], "match and mismatch, or matrix"),
        ([GLOBINS, GLOBINS, "--matrix", "B62", "--gap", -1], "matrix must be one of"),
        ([GLOBINS, GLOBINS, "--matrix", "BLOSUM62", "--gap", 1], "gap must be at most 0"),
        ([GLOBINS, "two.fasta", *BLOSUM, "--pairs"], "--pairs wants as many sequences"),
        ([GLOBINS, "letters.fasta", *BLOSUM, "-o", "out.tsv"], "letter"),
    ],
)
def test_what_is_refused(mgrec, folder, arguments, message):
    Path("empty.fasta").touch()
    Path("two.fasta").write_text(">a\nW\n>b\nW\n")
    Path("letters.fasta").write_text(">a\nW\u0142W\n")
    before = sorted(folder.iterdir())
    result = mgrec("align", *arguments)
    assert result.exit_code != 0
    assert message in result.output
    assert sorted(folder.iterdir()) == before

"""``mgrec align``: SAM files that others read, tables of scores, and honest failures."""

import gzip
from pathlib import Path

import pytest
from Bio.Align import substitution_matrices
from Bio.Align.sam import AlignmentIterator
from Bio.Seq import Seq
from sequences import FOLDER, read

from mgrec import smith_waterman

GLOBINS, ORCHIDS = FOLDER / "globins.fasta", FOLDER / "orchids.fasta"
BLOSUM = ("--matrix", "BLOSUM62", "--gap", -11, "--extend", -1)
SCORES = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_sam(path):
    """As Biopython reads it, with the letters of the references."""
    with open(path) as file:
        return list(AlignmentIterator(file))


def rescored(alignment, matrix):
    """The score of what another program has read."""
    total = 0
    for (begin, end), (start, stop) in zip(*alignment.aligned, strict=True):
        target, query = alignment.target.seq[begin:end], alignment.query.seq[start:stop]
        total += sum(matrix[a, b] for a, b in zip(target, query, strict=True))
    path = alignment.coordinates
    for (a, b), (c, d) in zip(path.T, path.T[1:], strict=False):
        if a == c or b == d:
            total -= 10 + max(c - a, d - b)
    return total


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["local", "semi-global"])
def test_biopython_reads_the_alignments(mgrec, mode):
    result = mgrec("align", GLOBINS, GLOBINS, *BLOSUM, "--mode", mode, "-o", "out.sam")
    assert result.exit_code == 0, result.output
    texts, matrix = read("globins"), substitution_matrices.load("BLOSUM62")
    found = read_sam("out.sam")
    assert len(found) == 9
    for alignment in found:
        target, query = texts[alignment.target.id], texts[alignment.query.id]
        assert len(alignment.target.seq) == len(target) and str(alignment.query.seq) == query
        alignment.target.seq = Seq(target)
        assert rescored(alignment, matrix) == alignment.score
        assert alignment.score == smith_waterman(query, target, mode=mode, **SCORES).score


def test_the_file_is_what_the_specification_says(mgrec):
    mgrec("align", GLOBINS, GLOBINS, *BLOSUM, "-o", "out.sam")
    lines = [line.split("\t") for line in Path("out.sam").read_text().splitlines()]
    assert lines[0] == ["@HD", "VN:1.6", "SO:unsorted"]
    assert lines[1] == ["@SQ", "SN:sp|P69905|HBA_HUMAN", "LN:142"]
    assert lines[4][:3] == ["@PG", "ID:mgrec", "PN:mgrec"]
    first, second = lines[5], lines[6]
    assert first[:6] == ["sp|P69905|HBA_HUMAN", "0", "sp|P69905|HBA_HUMAN", "1", "255", "142="]
    alpha, matrix = read("globins")[first[0]], substitution_matrices.load("BLOSUM62")
    assert first[11] == f"AS:i:{sum(matrix[letter, letter] for letter in alpha):.0f}"
    # The best of a query is its primary line.
    flags = [line[1] for line in lines[5:]]
    assert flags == ["0" if query == target else "256" for query in "abc" for target in "abc"]
    found = smith_waterman(*list(read("globins").values())[:2], output="alignment", **SCORES)
    assert second[3] == str(found.target_begin + 1)
    after = len(alpha) - 1 - found.query_end
    assert second[5] == f"{found.query_begin}S{found.cigar}{after}S"


@pytest.mark.parametrize("out", ["scores.tsv", None])
def test_a_table_of_scores(mgrec, out):
    where = ["-o", out] if out else []
    result = mgrec("align", GLOBINS, GLOBINS, *BLOSUM, *where)
    assert result.exit_code == 0, result.output
    assert " cells" in result.stderr
    text = Path(out).read_text() if out else result.stdout
    head, *rows = (line.split("\t") for line in text.splitlines())
    assert head == ["query", "target", "score", "query_end", "target_end"]
    texts = read("globins")
    assert len(rows) == 9
    for query, target, *numbers in rows:
        score, *ends = smith_waterman(texts[query], texts[target], **SCORES)
        assert [int(number) for number in numbers] == [score, *(end + 1 for end in ends)]


@pytest.mark.extended
def test_compressed_genes_in_pairs_by_letters(mgrec):
    with gzip.open("genes.fa.gz", "wt") as file:
        file.write(ORCHIDS.read_text())
    scores = ("--match", 2, "--mismatch", -3, "--gap", -5, "--extend", -2, "--mode", "global")
    result = mgrec("align", "genes.fa.gz", ORCHIDS, *scores, "--pairs", "-o", "out.sam")
    assert result.exit_code == 0, result.output
    found = read_sam("out.sam")
    assert [alignment.score for alignment in found] == [
        2 * len(text) for text in read("orchids").values()
    ]


@pytest.mark.parametrize(
    ("options", "scores"),
    [([], {"acgtnn": (8, 4), "ACGTNN": (8, 4)}), (["--case-sensitive"], {"ACGTNN": (8, 4)})],
)
def test_case_and_n_of_nucleotides(mgrec, options, scores):
    Path("a.fa").write_text(">soft\nacgtnn\n>hard\nACGTNN\n")
    Path("b.fa").write_text(">b\nACGTNN\n")
    words = ("align", "a.fa", "b.fa", "--match", 2, "--mismatch", -3, "--gap", -5, *options)
    assert mgrec(*words, "-o", "out.sam").exit_code == 0
    lines = [line.split("\t") for line in Path("out.sam").read_text().splitlines()[3:]]
    assert [line[9] for line in lines] == ["acgtnn", "ACGTNN"]
    have = {line[9]: (int(line[11][5:]), int(line[5][0])) for line in lines if line[5] != "*"}
    assert have == scores
    rows = mgrec(*words).stdout.splitlines()[1:]
    assert [int(row.split("\t")[2]) for row in rows] == [
        scores.get(text, (0,))[0] for text in ("acgtnn", "ACGTNN")
    ]


def test_n_of_a_protein_is_a_letter(mgrec):
    Path("a.fa").write_text(">a\nMKNNLV\n")
    rows = mgrec("align", "a.fa", "a.fa", "--match", 2, "--mismatch", -3, "--gap", -5).stdout
    assert rows.splitlines()[1].split("\t")[2] == "12"


def test_qualities_and_queries_that_do_not_align(mgrec):
    with open("reads.fastq", "w") as file:
        file.write("@one\nWWAW\n+\nIIII\n@none\nC\n+\n#\n")
    with open("target.fasta", "w") as file:
        file.write(">target\nAAWWWW\n")
    result = mgrec("align", "reads.fastq", "target.fasta", *BLOSUM, "-o", "out.sam")
    assert result.exit_code == 0, result.output
    aligned, not_aligned = (
        line.split("\t") for line in Path("out.sam").read_text().splitlines()[3:]
    )
    assert aligned[:6] + aligned[9:] == [
        "one", "0", "target", "3", "255", "2=1X1=", "WWAW", "IIII", "AS:i:30",
    ]  # fmt: skip
    assert not_aligned[:6] + not_aligned[9:] == [
        "none",
        "4",
        "*",
        "0",
        "0",
        "*",
        "C",
        "#",
        "AS:i:0",
    ]


def test_gaps_of_the_target_at_its_ends_are_left_out(mgrec):
    with open("query.fa", "w") as file:
        file.write(">query\nWCWH\n")
    with open("target.fa", "w") as file:
        file.write(">target\nGGWCWHPP\n")
    result = mgrec("align", "query.fa", "target.fa", *BLOSUM, "--mode", "global", "-o", "out.sam")
    assert result.exit_code == 0, result.output
    fields = Path("out.sam").read_text().splitlines()[-1].split("\t")
    assert fields[3] == "3" and fields[5] == "4=" and fields[11] == "AS:i:15"


def test_the_output_is_there_complete_or_not_at_all(mgrec, folder):
    with open("bad.fasta", "w") as file:
        file.write(">ok\nWW\n")
    matrix = ("--match", 1, "--mismatch", -1, "--gap", -1)
    assert mgrec("align", "bad.fasta", "bad.fasta", *matrix, "-o", "out.sam").exit_code == 0
    assert mgrec("align", "bad.fasta", "bad.fasta", *matrix, "-o", "out.sam").exit_code == 2
    again = mgrec("align", "bad.fasta", "bad.fasta", *matrix, "-o", "out.sam", "--overwrite")
    assert again.exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["bad.fasta", "out.sam"]


FASTA = {
    "empty.fasta": "",
    "twice.fasta": ">a\nWW\n>a\nWA\n",
    "star.fasta": ">*\nWW\n",
    "two.fasta": ">a\nW\n>b\nW\n",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.fasta", GLOBINS, *BLOSUM], "no.fasta cannot be read"),
        (["empty.fasta", GLOBINS, *BLOSUM], "empty.fasta has no sequences"),
        ([GLOBINS, "x.txt", *BLOSUM], "x.txt must end in .fasta"),
        ([GLOBINS, GLOBINS, *BLOSUM, "-o", "out.bam"], "out.bam must end in .sam or .tsv"),
        ([GLOBINS, GLOBINS, "--gap", -1], "match and mismatch, or matrix"),
        ([GLOBINS, GLOBINS, "--matrix", "B62", "--gap", -1], "matrix must be one of"),
        ([GLOBINS, GLOBINS, "--matrix", "BLOSUM62", "--gap", 1], "gap must be at most 0"),
        ([GLOBINS, "twice.fasta", *BLOSUM, "-o", "out.sam"], "two of 'a'"),
        ([GLOBINS, "star.fasta", *BLOSUM, "-o", "out.sam"], "SAM cannot name a sequence '*'"),
        ([GLOBINS, "two.fasta", *BLOSUM, "--pairs"], "--pairs wants as many sequences"),
    ],
)
def test_what_is_refused(mgrec, folder, arguments, message):
    for name, text in FASTA.items():
        (folder / name).write_text(text)
    result = mgrec("align", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert sorted(path.name for path in folder.iterdir()) == sorted(FASTA)

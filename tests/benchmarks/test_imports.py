"""Every name that a study imports from another is there, where CuPy is not installed, too."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "benchmarks"


def missing(root: Path) -> list[str]:
    """Names that the files of a package import relatively, and that are nowhere."""
    return [
        f"{path.relative_to(root)}:{node.lineno}: {alias.name}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if not _is_there(path.parents[node.level - 1], node.module, alias.name)
    ]


def _is_there(folder: Path, module: str | None, name: str) -> bool:
    source = folder.joinpath(*(module or "").split("."))
    file = source.with_suffix(".py")
    if source.is_dir():
        return (source / f"{name}.py").is_file()
    return file.is_file() and name in set(_defined(ast.parse(file.read_text())))


def _defined(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = (each for target in targets for each in ast.walk(target))
            yield from (each.id for each in found if isinstance(each, ast.Name))


def test_studies_import_what_is_there() -> None:
    assert missing(STUDIES) == []


@pytest.mark.parametrize("line", ["from . import peer", "from .peers import lop"])
def test_a_name_that_is_nowhere_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "peers.py").write_text("def loop(): ...\n")
    (tmp_path / "study.py").write_text(f"from . import peers\nfrom .peers import loop\n{line}\n")
    assert missing(tmp_path) == [f"study.py:3: {line.split()[-1]}"]

"""What type checkers see of mgrec is what there is, and finds mistakes."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mgrec

ROOT = Path(__file__).parents[1]
USERS = ROOT / "tests/users"


def stub(module):
    """The functions of a stub, each once a signature, and all names that it gives away."""
    path = Path(module.__file__).with_suffix(".pyi")
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return functions, imported | {node.name for node in functions}


@pytest.mark.parametrize("module", [mgrec, mgrec.signal, mgrec.ndimage, mgrec.hmm, mgrec.statespace])
def test_stubs_have_the_public_names_and_signatures(module):
    functions, names = stub(module)
    assert names - {"dask"} == set(module.__all__)
    for function in functions:
        wanted = inspect.signature(getattr(module, function.name)).parameters
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
        pairs = [
            *zip(positional, defaults, strict=True),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
        # Calls with DataArrays accept the name of a dimension in place of every axis.
        pairs = [(argument, default) for argument, default in pairs if argument.arg != "dim"]
        rest = [argument.arg for argument in (given.vararg, given.kwarg) if argument]
        assert {*(a.arg for a, _ in pairs), *rest} == set(wanted), function.name
        for argument, default in pairs:
            if default is not None:
                own = wanted[argument.arg].default
                assert ast.literal_eval(default) in (own, ...), (function.name, argument.arg)


def errors_of(command, path):
    """The lines of a file in which a type checker finds errors, and all that it says."""
    found = subprocess.run(
        [sys.executable, "-m", *command, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    text = found.stdout + found.stderr
    assert found.returncode < 2, text
    lines = re.findall(rf"{path.name}:(\d+)(?::\d+)?\s*(?:-\s*|:\s*)error", text)
    return {int(line) for line in lines}, text


MYPY = ["mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
PYRIGHT = ["basedpyright", "--level", "error", "--pythonpath", sys.executable, "-p", str(USERS)]
CHECKERS = {"mypy": MYPY, "basedpyright": PYRIGHT}


@pytest.mark.extended
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_finds_what_is_wrong_and_nothing_else(checker):
    pytest.importorskip(checker)
    pytest.importorskip("jax")
    found, said = errors_of(CHECKERS[checker], USERS / "right.py")
    assert found == set(), said
    path = USERS / "wrong.py"
    lines = enumerate(path.read_text().splitlines(), 1)
    wanted = {number for number, line in lines if line.endswith("# wrong")}
    found, said = errors_of(CHECKERS[checker], path)
    assert found == wanted, said

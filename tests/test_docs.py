"""Whatever the documentation shows runs, and says what it says."""

import doctest
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from markdown_examples import parse_markdown

import mgrec

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
# Numbers are compared as printed; only white space may differ.
DOCTEST_OPTIONS = doctest.NORMALIZE_WHITESPACE


PACKAGE = Path(mgrec.__file__).parent
MODULES = [
    ".".join(("mgrec", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]
PUBLIC_NAMES = [name for name in mgrec.__all__ if callable(getattr(mgrec, name))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name not in ("cupy", "torch"):
            raise
        pytest.skip(f"needs {missing.name}: pip install 'mgrec[cuda12]' or 'mgrec[torch]'")
    runner = doctest.DocTestRunner(optionflags=DOCTEST_OPTIONS)
    report: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(example, out=report.append)
    assert report == [], "".join(report)


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_has_an_example(name):
    assert ">>> " in (getattr(mgrec, name).__doc__ or "")


PUBLIC = [
    pytest.param(getattr(module, name), id=name)
    for module in (
        mgrec,
        mgrec.adjoint,
        mgrec.signal,
        mgrec.ndimage,
        mgrec.hmm,
        mgrec.statespace,
        mgrec.tuning,
    )
    for name in module.__all__
    if callable(getattr(module, name))
]


@pytest.mark.parametrize("value", PUBLIC)
def test_public_docstrings_have_at_most_90_lines(value):
    """Derivations belong in docs/how, and paragraphs that functions share in docs/guide."""
    assert len(inspect.getdoc(value).splitlines()) <= 90


def test_a_wrong_result_in_readme_is_found(tmp_path):
    wrong = tmp_path / "README.md"
    wrong.write_text("```python\n>>> 1 + 1\n3\n```\n")
    (example,) = parse_markdown(wrong)
    with pytest.raises(AssertionError, match="Expected"):
        example.evaluate()


def test_readme_is_read_in_a_minute():
    assert len(README.read_text().splitlines()) <= 150


def test_links_of_readme_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text())
    files = [target for target in targets if "://" not in target]
    assert len(files) >= 15
    assert [target for target in files if not (ROOT / target).exists()] == []


def test_readme_shows_only_what_runs():
    """Python runs above; the lines of the sh blocks are what .ci/run executes."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert {kind for kind, _ in blocks} == {"python", "sh", "text"}
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    fresh = "python3 -m venv .venv && .venv/bin/pip install "
    assert [command.removeprefix(fresh) for command in commands] == [
        "--no-compile '.[plot]' && .venv/bin/mgrec demo",
        "--no-compile '.[test]' && .venv/bin/pytest",
        "-e '.[dev]' && .venv/bin/pre-commit install",
    ]


def test_hooks_have_the_versions_of_the_dev_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    pins = {pin for hook in hooks for pin in hook["additional_dependencies"] if "==" in pin}
    assert len(pins) == 3
    assert pins <= set(project["optional-dependencies"]["dev"])

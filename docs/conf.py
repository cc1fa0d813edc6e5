"""Settings of the documentation; ``sphinx-build -W --keep-going docs build/docs`` builds it."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The extensions in this folder, and the reader of results in benchmarks.
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]

import mgrec  # noqa: E402

# An attribute of the package, which autodoc imports as a module.
sys.modules["mgrec.maps"] = mgrec.maps

project = "mgrec"
author = "The mgrec developers"
project_copyright = "The mgrec developers, Apache License 2.0"
release = mgrec.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "extensions.docstrings",
    "extensions.headline",
    "extensions.keywords",
    "extensions.mathml",
    "extensions.notebook",
    "extensions.report",
    "extensions.results",
    "extensions.sources",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "figures", "gallery/*.py"]
# Sphinx cannot cache functions, which the settings of numpydoc and the gallery contain.
suppress_warnings = ["config.cache"]
nitpicky = True
# Words in numpydoc's type lines that are not names of classes.
nitpick_ignore_regex = [("py:.*", r"(?!mgrec).*")]

# Links to other projects need the network; a build must not depend on it.
if os.environ.get("READTHEDOCS") or os.environ.get("MGREC_DOCS_ONLINE"):
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "dask": ("https://docs.dask.org/en/stable", None),
        "cupy": ("https://docs.cupy.dev/en/stable", None),
    }

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
templates_path = ["templates"]

autosummary_generate = True
autodoc_typehints = "none"
add_module_names = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py$",
    "ignore_pattern": r"__init__" if find_spec("torch") else r"__init__|equaliser|layer|diffusion",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "reset_modules": ("extensions.pictures.reset",),
    "abort_on_example_error": True,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "backreferences_dir": "reference/examples",
    "doc_module": ("mgrec",),
    "reference_url": {"mgrec": None},
    "thumbnail_size": (480, 336),
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "mgrec"
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
html_css_files = ["mgrec.css"]
html_show_sourcelink = False
# Pages without pages below them: the room is for their tables.
html_sidebars = {"index": [], "start": [], "performance": []}
html_theme_options = {
    "show_prev_next": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

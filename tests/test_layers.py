"""Imports run downwards only, and every optional or heavy package has one owner.

The layers, from top to bottom, are the keys of MAY_IMPORT. What has no folder of its own (the
public names in ``mgrec/__init__.py`` and modules beside it) is called ``public``; what starts
the command, ``mgrec/__main__.py``, belongs to it.
"""

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

SOURCE = Path(__file__).parents[1] / "mgrec"

BELOW = {"solve", "distributed", "engines", "core"}
# The families that each family imports.
FAMILIES: dict[str, set[str]] = {
    "scans": set(),
    "filters": {"scans"},
    "ewm": {"filters", "scans"},
    "tridiagonal": {"scans"},
    "banded": {"scans", "tridiagonal"},
    "grids": {"scans"},
    "ndimage": set(),
    "hmm": {"scans"},
    "statespace": {"scans"},
}
MAY_IMPORT = {
    "cli": {"cli", "public", *FAMILIES, *BELOW},
    "xarray": {"xarray", "public", *FAMILIES, *BELOW},
    "public": {"public", *FAMILIES, *BELOW},
    **{family: {family, *others, *BELOW} for family, others in FAMILIES.items()},
    "solve": {"solve", "distributed", "engines", "core"},
    "distributed": {"distributed", "engines", "core"},
    "engines": {"engines", "core"},
    "core": {"core"},
}

# Folders of families.
CPU, CUDA = "*/cpu", "*/cuda"

# Exchanges of arrays between GPUs, and of messages in their memory.
GROUPS = ("distributed/groups/nccl.py", "distributed/groups/device.py")

# The command is an application on top: it opens stores and clusters as any user would.
OWNERS = {
    "dask.array": ("distributed", "tridiagonal/factor_dask.py", "cli"),
    # Memory of a GPU from other libraries is taken as CuPy's.
    "cupy": ("engines/cuda", "core/arrays/interop.py", *GROUPS, CUDA),
    "cupyx": ("engines/cuda", GROUPS[1], CUDA),
    "numba": ("engines/cpu", CPU),
    "llvmlite": ("engines/cpu", CPU),
    "torch": ("solve/torch_operators.py", "solve/torch_solvers.py", "distributed/groups/torch.py"),
    "mpi4py": ("distributed/groups/mpi.py",),
    "jax": ("solve/jax_callbacks.py",),
    # A caller who passes a DataArray has imported it.
    "xarray": ("xarray", "solve/labelled.py", "solve/steps.py", "cli"),
    "Bio": ("cli", "grids/alignment/scoring.py"),
    "click": ("cli",),
    "rich": ("cli",),
    # Messages of plans are Dask's: no port is opened, and nothing is encrypted here.
    **dict.fromkeys(("socket", "socketserver", "ssl", "selectors", "hmac", "http.server"), ()),
}


def violations(source: Path) -> list[str]:
    """Return one line for each import under ``source`` that `MAY_IMPORT` or `OWNERS` forbids."""
    found = []
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source).as_posix()
        for line, module in imports(path, source):
            reason = forbidden(place, module, source)
            if reason:
                found.append(f"mgrec/{place}:{line}: {reason}")
    return found


def imports(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Yield line and absolute name of whatever a file imports, wherever in it."""
    parent = ".".join(("mgrec", *path.relative_to(source).parts[:-1]))
    for node in nodes_of(path.read_text()):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(name, parent)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield from (
                (node.lineno, importlib.util.resolve_name(argument.value, parent))
                for argument in node.args[:1]
                if isinstance(argument, ast.Constant)
            )


@cache
def nodes_of(text: str) -> list[ast.AST]:
    """Return the imports, calls and conditions of a file."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.If)
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def called(node: ast.Call) -> str:
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def forbidden(place: str, module: str, source: Path) -> str | None:
    if module == "mgrec" or module.startswith("mgrec."):
        importer = layer(place.split("/")[0].removesuffix(".py"), source)
        imported = layer(module.removeprefix("mgrec").lstrip(".").split(".")[0], source)
        if imported not in MAY_IMPORT.get(importer, ()):
            return f"{importer} must not import {module} of {imported}"
        return None
    for package, owners in OWNERS.items():
        is_owner = place.startswith(owners) or any(
            folder in owners and folder[1:] in f"/{place}" for folder in (CPU, CUDA)
        )
        if f"{module}.".startswith(f"{package}.") and not is_owner:
            return f"only {' and '.join(owners) or 'Dask'} may import {package}"
    return None


def layer(name: str, source: Path) -> str:
    """Return the layer of a name in ``mgrec/``; a new folder must be given one in MAY_IMPORT."""
    if name == "__main__":
        return "cli"
    is_folder = name != "" and (source / name).is_dir()
    return name if is_folder or name in MAY_IMPORT else "public"


def test_imports_run_downwards_only():
    assert violations(SOURCE) == []


def circle(source: Path) -> list[str]:
    """Modules that import each other, also in functions; those for types alone do not count."""
    modules = {name_of(path, source): path for path in source.rglob("*.py")}
    following = {name: {*loaded(path, source, modules)} for name, path in modules.items()}
    try:
        TopologicalSorter(following).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def name_of(path: Path, source: Path) -> str:
    parts = ("mgrec", *path.relative_to(source).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def loaded(path: Path, source: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Modules of this package that a file imports, apart from those for types alone."""
    later = {
        line
        for node in nodes_of(path.read_text())
        if is_for_types(node)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    for line, name in imports(path, source):
        module = name if name in modules else name.rpartition(".")[0]
        if line not in later and module in modules and module != name_of(path, source):
            yield module


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def test_no_modules_import_each_other():
    assert circle(SOURCE) == []


def test_a_planted_circle_is_found(tmp_path):
    planted = {
        **HOUSE,
        "core/powers.py": "from . import laws",
        "core/laws.py": "def later():\n    from .powers import x",
    }
    assert circle(build(tmp_path / "none", HOUSE)) == []
    assert set(circle(build(tmp_path, planted))) == {"mgrec.core.laws", "mgrec.core.powers"}


def test_every_layer_has_files():
    places = [path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")]
    assert {layer(place.removesuffix(".py"), SOURCE) for place in places} == set(MAY_IMPORT)


HOUSE = {
    "__init__.py": "from .scans import linear",
    "scans/linear.py": "from ..core import arrays\nfrom ..solve import local",
    "scans/cpu/kernels.py": "from numba import njit\nfrom ...core import arrays",
    "scans/cuda/kernels.py": "def load():\n    import cupy",
    "ewm/weights.py": "from ..filters import cascade",
    "filters/cascade.py": "from ..core import arrays",
    "core/arrays.py": "from . import powers",
    "core/powers.py": "import numpy as np",
    "solve/local.py": "from ..engines.cpu import threads\nfrom ..distributed import build",
    "distributed/build.py": "import dask.array as da\nfrom dask import array",
    "engines/cpu/threads.py": "from numba import njit\nfrom ...core import arrays",
    "cli/__init__.py": "import click, rich.table\nfrom .. import scans\nfrom ..engines import cpu",
}


def build(root: Path, files: dict[str, str]) -> Path:
    for place, text in files.items():
        path = root / "mgrec" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "mgrec"


def test_a_lawful_house_passes(tmp_path):
    assert violations(build(tmp_path, HOUSE)) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("filters/new.py", "from ..ewm import arguments"),
        ("scans/new.py", "from ..filters import cascade"),
        ("core/new.py", "from ..scans import linear"),
        ("core/new.py", "from .. import solve"),
        ("core/new.py", "import mgrec"),
        ("core/new.py", "def later():\n    from mgrec.scans import linear"),
        ("core/new.py", "import importlib\nimportlib.import_module('mgrec.engines.cpu')"),
        ("engines/cpu/new.py", "from ...solve import local"),
        ("engines/cpu/new.py", "from ...scans.cpu import kernels"),
        ("distributed/new.py", "from ..scans import linear"),
        ("distributed/new.py", "from ..solve import local"),
        ("solve/new.py", "from ..scans import linear"),
        ("scans/new.py", "from .. import linear_recurrence"),
        ("scans/new.py", "from ..cli.command import main"),
        ("scans/new.py", "import dask.array as da"),
        ("solve/local.py", "from dask import array"),
        ("solve/local.py", "from dask.array import Array"),
        ("engines/cpu/new.py", "import cupy"),
        ("scans/cpu/new.py", "import cupy"),
        ("engines/new.py", "from cupyx.scipy import signal"),
        ("engines/cuda/new.py", "import numba.cuda"),
        ("scans/new.py", "import numba"),
        ("distributed/build.py", "import click"),
        ("distributed/build.py", "import socket"),
        ("__init__.py", "from rich.table import Table"),
        ("helpers/new.py", "import mgrec"),
        ("core/new.py", "from ..helpers import new"),
    ],
)
def test_a_planted_import_is_found(tmp_path, place, text):
    planted = {"helpers/__init__.py": "", **HOUSE, place: text}
    found = violations(build(tmp_path, planted))
    assert len(found) == 1
    assert found[0].startswith(f"mgrec/{place}:")


def test_optional_packages_are_imported_where_they_are_asked_for():
    """Nor do public functions import Dask's arrays, pandas and others, which take a second."""
    ask = (
        "import sys, mgrec; [getattr(mgrec, name) for name in mgrec.__all__ if name != 'plan']; "
        "assert not {'dask.array', 'distributed', 'pandas', 'xarray'} & {*sys.modules}; "
        "mgrec.plan; mgrec.dask.warm_up"
    )
    subprocess.run([sys.executable, "-c", ask], check=True)

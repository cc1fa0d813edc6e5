"""What is packed and published: versions agree, archives have what they need."""

import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from chunkings import with_extended
from packaging.requirements import Requirement

import mgrec

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lowest(requirements):
    """The lowest version of each package."""
    found = map(Requirement, requirements)
    return {each.name: next(iter(each.specifier)).version for each in found}


def test_the_lowest_versions_that_are_tested_are_those_that_are_admitted(project):
    lines = (ROOT / ".ci" / "lowest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    admitted = lowest(project["dependencies"])
    assert set(tested) == set(admitted)
    for name, version in tested.items():
        assert re.fullmatch(rf"{re.escape(admitted[name])}(\.0)*", version)


def test_versions_agree(project):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    versions = {citation["version"], recipe["context"]["version"], project["version"]}
    assert versions == {mgrec.__version__}
    assert citation["license"] == recipe["about"]["license"] == project["license"]


def test_the_recipe_wants_what_the_project_wants(project):
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())
    wanted = dict(line.split(" >=") for line in recipe["requirements"]["run"])
    assert f">={wanted.pop('python')}" == project["requires-python"]
    assert wanted.pop("dask-core") == wanted["distributed"]
    admitted = lowest(project["dependencies"])
    assert wanted == {name: version for name, version in admitted.items() if name != "dask"}
    scripts = [f"{name} = {function}" for name, function in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_the_names_of_modules_are_the_public_ones():
    assert dir(mgrec) == sorted([*mgrec.__all__, "__version__", "dask"])
    assert dir(mgrec.signal) == sorted(mgrec.signal.__all__)
    assert dir(mgrec.ndimage) == sorted(mgrec.ndimage.__all__)
    assert dir(mgrec.maps) == sorted(mgrec.maps.__all__)


@pytest.mark.parametrize(
    "name", with_extended(["maps", "ndimage", "scan", "signal"], "maps", "ndimage", "scan")
)
def test_a_public_name_is_there_where_nothing_else_was_imported(name):
    """Names are imported when they are first used."""
    script = f"import sys, mgrec; assert 'numba' not in sys.modules; mgrec.{name}"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_public_module_is_imported_by_its_name():
    for name in (*mgrec._MODULES, "dask", "xarray"):
        pytest.importorskip("xarray" if name == "xarray" else "mgrec")
        module = importlib.import_module(f"mgrec.{name}")
        assert name == "xarray" or module is getattr(mgrec, name)


def test_functions_of_scipy_are_named():
    with pytest.raises(AttributeError, match=r"no attribute 'butter'; .*call scipy\.signal\.butter"):
        mgrec.signal.butter  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'zoom'; .*call scipy\.ndimage\.zoom"):
        mgrec.ndimage.zoom  # noqa: B018


def test_start_has_every_extra(project):
    page = (ROOT / "docs" / "start.md").read_text()
    extras = {*project["optional-dependencies"]} - {"bench", "dev", "docs", "test"}
    assert [name for name in sorted(extras) if f"`{name}`" not in page] == []


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("CITATION.cff", "citation-file-format"),
        (".github/workflows/tests.yaml", "github-workflows"),
        (".github/workflows/nightly.yaml", "github-workflows"),
        (".readthedocs.yaml", "readthedocs"),
    ],
)
def test_files_that_others_read_fit_their_schema(name, schema):
    pytest.importorskip("check_jsonschema", reason="needs the extra dev")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    checked = subprocess.run([*command, str(ROOT / name)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_the_workflows_run_what_there_is():
    commands = []
    for file in sorted((ROOT / ".github" / "workflows").iterdir()):
        text = file.read_text()
        for path in re.findall(r"(?:tests|\.ci)/[\w./]+", text):
            assert (ROOT / path).exists(), path
        for job in yaml.safe_load(text)["jobs"].values():
            parts = job.get("strategy", {}).get("matrix", {}).get("part", [""])
            runs = [step["run"] for step in job["steps"] if "run" in step]
            commands += [run.replace("${{ matrix.part }}", part) for run in runs for part in parts]
    parts = re.findall(r"^#   (bash \.ci/run \w+) ", (ROOT / ".ci" / "run").read_text(), re.M)
    assert len(parts) == 4
    assert [part for part in parts if part not in commands] == []


@pytest.mark.extended
def test_the_recipe_renders(project):
    rattler = pytest.importorskip("rattler_build", reason="needs the extra dev")
    recipe = rattler.Stage0Recipe.from_file(str(ROOT / "deploy" / "conda" / "recipe.yaml"))
    (variant,) = recipe.render(rattler.VariantConfig())
    assert variant.recipe.package.name == "mgrec"
    assert variant.recipe.package.version == project["version"]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    pytest.importorskip("hatchling", reason="needs the extra dev")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def run(folder, *words):
    """A module of Python, which finds what is unpacked in a folder and nothing of the clone."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.extended
def test_the_tests_find_all_that_they_read_in_the_sdist(archives, tmp_path):
    (archive,) = archives.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    collected = run(folder, "pytest", *options, "--collect-only", "tests")
    assert collected.returncode == 0, collected.stdout[-3000:]
    files = [f"tests/{name}" for name in ("test_docs.py", "test_deploy.py", "test_package.py")]
    tested = run(folder, "pytest", *options, "-k", "not docstring and not readme", "tests/kubernetes", *files)
    assert tested.returncode == 0, tested.stdout[-3000:]


@pytest.mark.extended
def test_the_studies_run_from_a_wheel(archives, tmp_path):
    (archive,) = archives.glob("*.whl")
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    ran = run(tmp_path, "mgrec", "bench", "scaling", "--small", "--minutes", "0.1")
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    (record,) = tmp_path.glob("scaling-small-*.json")
    assert json.loads(record.read_text())["commit"]

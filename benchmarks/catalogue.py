"""The studies, for ``mgrec bench``: a line each, and what they need. Importing it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One study: its module, what it holds against what, and minutes on two cores or an H100.

    It `needs` "gpu", "disk" (8 GB) or nothing.
    """

    module: str
    about: str
    minutes: float
    needs: str = ""

    @property
    def name(self) -> str:
        return self.module


STUDIES = (
    Entry("cpu.recurrences", "recurrences of NumPy arrays against loops, SciPy and pandas", 3),
    Entry("cpu.filters", "filters of NumPy arrays against scipy.signal", 4),
    Entry("cpu.ewm", "exponentially weighted statistics against pandas, and segments", 1),
    Entry("cpu.states", "Kalman filters and hidden Markov models against their peers", 2),
    Entry("cpu.gradients", "filters and their gradients inside torch against its packages", 4),
    Entry("cpu.recordings", "zero-phase filters from zarr to zarr against SciPy", 3, "disk"),
    Entry("cpu.tridiagonal", "tridiagonal systems against LAPACK and loops", 4),
    Entry("cpu.banded", "banded systems against SciPy", 1),
    Entry("cpu.tables", "summed-area tables against OpenCV and numpy.cumsum", 2),
    Entry("cpu.alignment", "alignments against parasail and Biopython", 1),
    Entry("cpu.relaxation", "successive over-relaxation against a loop", 4),
    Entry("dask.graph", "graphs of 10 to 1,000 chunks against map tasks and cumsum", 3),
    Entry("dask.streaming", "4·10^9 bytes from disk to disk against a copy", 2, "disk"),
    Entry("dask.tridiagonal", "one tridiagonal system in chunks", 1),
    Entry("dask.grids", "one table and one pair of sequences over two workers", 3),
    Entry("dask.adi", "steps of the heat equation in a box over two workers", 2),
    Entry("dask.queued", "solves of plans over two workers, alone and queued", 1),
    Entry("dask.scaling", "one recurrence over 1 to all workers", 6),
    Entry("cuda.calls", "public calls over common layouts against two libraries' sums", 1.5, "gpu"),
    Entry("cuda.scan", "scan kernels against the traffic of memory", 1, "gpu"),
    Entry("cuda.filters", "filters against the traffic of memory and cupyx", 1, "gpu"),
    Entry("cuda.tridiagonal", "tridiagonal systems against cuSPARSE and JAX", 1, "gpu"),
    Entry("cuda.banded", "banded and block tridiagonal systems", 1, "gpu"),
    Entry("cuda.summed_area", "summed-area tables against two libraries' sums", 1, "gpu"),
    Entry("cuda.gradients", "gradients inside torch against its packages and jax", 2, "gpu"),
    Entry("cuda.images", "splines, Gaussians and box filters against cupyx", 1, "gpu"),
    Entry("cuda.relaxation", "sweeps against a kernel a diagonal", 1, "gpu"),
    Entry("cuda.alignment", "alignments in cells a second", 1, "gpu"),
    Entry("cuda.sizes", "one row of 2^10 to 2^30 steps against CUB and CuPy", 1, "gpu"),
    Entry("cuda.peers", "scans against CUB, cuda.compute, jax, torch and others", 4, "gpu"),
    Entry("cuda.p_scheme", "the policy of P-scheme/G against all configurations", 2, "gpu"),
    Entry("cuda.training", "one sequence over torch's ranks against a rank's part", 1, "gpu"),
    Entry("papers.wakatani_2012", "P-scheme/G by phase, against PCR", 1, "gpu"),
    Entry("papers.wakatani_2013", "P-scheme/G by blocks and threads, and its policy", 1, "gpu"),
    Entry("papers.pogorelskih_2019", "Thomas and reductions by kinds of memory", 1, "gpu"),
    Entry("papers.hou_2018", "wavefront loops by strategy, and weighted scans", 1.5, "gpu"),
)

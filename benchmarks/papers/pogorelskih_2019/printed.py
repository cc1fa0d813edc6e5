"""What the paper prints.

X. S. Pogorelskih, L. V. Loganova, "Research of parallel algorithms for solving three-diagonal
systems of linear algebraic equations on a graphical computing device using various types of
memory", ITNT 2019, CEUR 2416, paper 30: tables 1 to 4. Its figure 2 has no numbers in its text.
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 4095
COUNTS = (5_000, 10_000, 15_000, 20_000, 25_000)

THOMAS, THOMAS_GLOBAL = "Thomas, shared memory", "Thomas, global memory"
AGAIN = "SERICR computed again, shared memory"
AGAIN_GLOBAL = "SERICR computed again, global memory"
STORED, STORED_GLOBAL = "SERICR stored, shared memory", "SERICR stored, global memory"
PART, ALL, NONE = "PARACR, part in shared", "PARACR, all in shared", "PARACR, global memory"
CPU_THOMAS, CPU_SERICR, CPU_LOOP = "CPU Thomas", "CPU SERICR", "CPU loop"
REDUCTION, PCR, P_SCHEME, AUTO = ("mgrec cyclic-reduction", "mgrec pcr", "mgrec p-scheme", "mgrec auto")


@dataclass(frozen=True)
class Table:
    """Accelerations by the number of systems, against a loop on a CPU."""

    number: int
    base: str
    columns: dict[str, dict[int, float]]


def _by_count(*values: float) -> dict[int, float]:
    return dict(zip(COUNTS, values, strict=False))


TABLES = (
    Table(1, CPU_THOMAS, {
        THOMAS: _by_count(2.19032, 1.705628, 1.903806, 1.885846),
        THOMAS_GLOBAL: _by_count(1.680011, 1.164633, 1.274506, 1.027733),
    }),
    Table(2, CPU_SERICR, {
        AGAIN: _by_count(0.316570, 0.259339, 0.258175, 0.264068, 0.253464),
        AGAIN_GLOBAL: _by_count(0.193076, 0.191475, 0.186748, 0.190208, 0.185693),
    }),
    Table(3, CPU_SERICR, {
        PART: _by_count(2.006864, 2.021180, 2.008165, 2.007109, 2.017338),
        ALL: _by_count(1.198271, 1.206249, 1.201463, 1.202857, 1.203156),
        NONE: _by_count(1.970711, 1.972713, 1.973943, 1.962254, 1.987762),
    }),
)  # fmt: skip
# Table 4, seconds.
SECONDS = {THOMAS: _by_count(0.09, 0.19, 0.28, 0.38, 0.47), PART: _by_count(0.59, 1.19, 1.78, 2.38, 2.96)}
# Figure 2, in words: PARACR takes a seventh of the time of Thomas for one large system.
ONE_SYSTEM = 7.0

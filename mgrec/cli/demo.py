"""``mgrec demo``: a long recurrence over real data, solved, checked, timed and plotted."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import cluster as clusters
from . import devices, earth, failure, hints, picture, records, trial
from .output import check_output

PICTURES = (".png", ".pdf", ".svg")

HELP = f"""Solve a long recurrence over real data on a cluster, check, time and plot it.

How far does the sea reach into the land? A wind from the west blows along one thread that
is wound round the Earth from the north pole to the south pole, 2,160 times, over the land
and sea of NOAA's GLOBE elevation model: 93 million steps of w_i = s_i·w_(i-1) + t_i, where w
is the share of maritime air. Every step is then checked against the sequential loop.

{failure.EXIT_CODES}"""


@click.command("demo", help=HELP, short_help="Solve, check, time and plot a recurrence.")
@click.option(
    "-o", "--output", "out", default="mgrec-demo.png", show_default=True, metavar="PNG",
    type=click.Path(path_type=Path, dir_okay=False), help="The picture.",
)  # fmt: skip
@click.option(
    "--turns", type=click.IntRange(1, earth.PARALLELS),
    help="Turns round the Earth [default: 2160, or what fits into half of the memory].",
)  # fmt: skip
@click.option("--cluster", help=f"{clusters.HELP} [default: cuda if there are GPUs, or local]")
def demo(out: Path, turns: int | None, cluster: str | None) -> None:
    console = Console()
    with failure.in_one_line("the demo was stopped"):
        if out.suffix.lower() not in PICTURES:
            raise failure.BadInput(f"{out} must end in {', '.join(PICTURES)}")
        check_output(out, overwrite=True)
        run = trial.solve_and_verify(earth.MaritimeAir(turns or _turns()), cluster, console)
        console.print(_table(run))
        if importlib.util.find_spec("matplotlib") is None:
            command = escape(hints.install("plot"))
            console.print(f"No picture without matplotlib: {command} adds it.", soft_wrap=True)
        else:
            picture.draw(run, out)
            console.print(f"The picture: {out}", soft_wrap=True)
    if not run.judge.holds:
        raise failure.Failure("the result is outside its stated error bound: please report this")


def _turns() -> int:
    """As many as fit into half of the memory."""
    half = devices.memory_bytes() // 2
    return max(1, min(earth.PARALLELS, half // (trial.BYTES_A_STEP * earth.PLACES)))


def _table(run: trial.Run) -> Table:
    judge, copy = run.judge, run.copy
    tries = ", ".join(f"{seconds:.2f}" for seconds in run.tries)
    spent = records.seconds(run.records)
    rows: dict[str, Any] = {
        "steps": f"{run.steps:,}, {run.air.turns:,} times round the Earth, float64",
        "chunks": f"{run.chunks} of {trial.TURNS_A_CHUNK * earth.PLACES:,} steps",
        "workers": f"{run.workers} with {run.threads} threads in all",
        "time": f"{run.solving:.2f} s, the best of {tries}; loading {run.loading:.2f} s",
        "of it, by phase": ", ".join(f"{name} {spent[name]:.2f} s" for name in spent),
        "speed": f"{run.rate / 1e9:.2f} GB/s, at {trial.BYTES_A_STEP} bytes a step",
        "of copy bandwidth": f"{run.rate / copy.rate:.0%} of {copy.rate / 1e9:.1f} GB/s "
        f"({copy.threads} threads)",
        "largest error": f"{judge.largest_error:.1e} from the exact result",
        "stated bound": f"{'holds' if judge.holds else 'FAILS'}, largest error / bound "
        f"{judge.largest_share:.1e}",
        "sequential loop": f"differs by at most {judge.largest_difference:.1e}, "
        f"{judge.steps:,} steps compared",
    }
    table = Table(title="w = s·w + t, the share of maritime air", title_justify="left")
    table.add_column("", style="bold")
    table.add_column("")
    table.show_header = False
    for name, value in rows.items():
        table.add_row(name, value)
    return table

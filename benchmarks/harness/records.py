"""Result files: a record, its tables and its picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


def save(record: dict[str, Any], folder: Path) -> Path:
    """Write the record, and its tables beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['study']}-{record['machine']['name']}-{record['date'][:10]}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    path.with_suffix(".md").write_text(tables(record))
    return path


def tables(record: dict[str, Any]) -> str:
    about, load = record["machine"], record["load"]
    lines = [
        f"# {record['study']}: {about['processor']}, {about['cores']} cores, {record['date']}",
        "",
        f"mgrec {record['commit']}. Others took {load['foreign_processors']:.2f} processors; the "
        f"calibration loop's median is {load['calibration_median'] / load['calibration_best']:.2f} "
        f"of its best: the machine was {'' if load['quiet'] else 'not '}quiet.",
        "",
        *(f"- GPU: {name}" for name in about["gpus"]),
        f"- copy bandwidth of {record['memory']}, GB/s: {record['copy_bandwidth'] / 1e9:.4g}",
        *(f"- {name}: {value}" for name, value in record["notes"].items()),
    ]
    if record["bars"]:
        lines += ["", "| bar | figure | of the best times | wanted | met |", "|---" * 5 + "|"]
    for bar in record["bars"]:
        met = "yes" if bar["met"] else "**missed**"
        lines.append(
            f"| {bar['bar']} | {bar['figure']:.3g} | {bar['best']:.3g} | {bar['wanted']} | {met} |"
        )
    lines += ["", *_case_table(record["cases"])]
    if record["not_measured"]:
        lines += ["", "| case | candidate | not measured, because |", "|---" * 3 + "|"]
    for row in record["not_measured"]:
        lines.append(f"| {row['case']} | {row['candidate']} | {row['reason']} |")
    return "\n".join(lines) + "\n"


def _case_table(rows: list[dict[str, Any]]) -> list[str]:
    last = "fraction" if any("fraction" in row for row in rows) else "ns a step"
    lines = [f"| case | candidate | n | median ms | min | max | {last} |", "|---" * 7 + "|"]
    for row in rows:
        times = " | ".join(f"{row[key] * 1e3:.4g}" for key in ("median", "min", "max"))
        each = f"{row['median'] / row['steps'] * 1e9:.3g}" if "steps" in row else ""
        if last == "fraction":
            each = f"{row['fraction']:.3f}" if "fraction" in row else ""
        lines.append(
            f"| {row['case']} | {row['candidate']} | {row['repetitions']} | {times} | {each} |"
        )
    return lines


def draw_small(figure: Any, path: Path) -> None:
    """A PNG of few colours: a third of the bytes."""
    from PIL import Image

    figure.savefig(path, dpi=90)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(32)
    small.save(path, optimize=True)

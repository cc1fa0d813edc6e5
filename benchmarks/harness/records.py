"""Result files: a record, its tables and its picture.

A record is JSON with one entry a line, and where an entry is a list, one row a line: a later
result differs from it in the rows that differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
# No clock has more digits, nor has a bandwidth or ratio that follows from times.
DIGITS = 5


def save(record: dict[str, Any], folder: Path, text: str | None = None) -> Path:
    """Write the record and its tables: `text`, if a study makes its own tables."""
    path = folder / f"{record['study']}-{record['machine']['name']}-{record['date'][:10]}.json"
    write(record, path)
    path.with_suffix(".md").write_text(tables(record) if text is None else text)
    return path


def write(record: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = (f' "{name}": {_entry(value)}' for name, value in rounded(record).items())
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n")


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def rounded(value: Any) -> Any:
    """The record with `DIGITS` significant digits; integers, which are counts, keep all."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    if isinstance(value, float) and not value.is_integer():
        return float(f"{value:.{DIGITS}g}")
    return value


def _entry(value: Any) -> str:
    if not (isinstance(value, list) and value):
        return json.dumps(value, ensure_ascii=False)
    rows = (f"  {json.dumps(row, ensure_ascii=False)}" for row in value)
    return "[\n" + ",\n".join(rows) + "\n ]"


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
        head = "| goal of development | figure | of the best times | wanted | reached |"
        lines += ["", head, "|---" * 5 + "|"]
    for bar in record["bars"]:
        met = "yes" if bar["met"] else "no"
        lines.append(f"| {bar['bar']} | {bar['figure']:.3g} | {bar['best']:.3g} | {bar['wanted']} | {met} |")
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
        lines.append(f"| {row['case']} | {row['candidate']} | {row['repetitions']} | {times} | {each} |")
    return lines


def draw_small(figure: Any, path: Path) -> None:
    """A PNG of few colours: a third of the bytes."""
    from PIL import Image

    figure.savefig(path, dpi=90)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(64)
    small.save(path, optimize=True)

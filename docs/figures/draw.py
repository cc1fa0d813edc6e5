"""Draw the figures of "How it works" as SVG into this folder: ``python docs/figures/draw.py``."""

import math
from pathlib import Path

import numpy as np

INK, FAINT, LINE = "#3f3f46", "#71717a", "#d4d4d8"
READ, PASS, WRITE = "#2563a8", "#c2570c", "#15803d"
PALE = {READ: "#dbeafe", PASS: "#ffedd5", WRITE: "#dcfce7"}


def card(width: int, height: int, label: str, *parts: str) -> str:
    """Return a white card with rounded corners, as in the README."""
    arrowheads = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 Z" fill="{colour}"/></marker>\n'
        for name, colour in (("read", READ), ("pass", PASS), ("write", WRITE))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{label}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="13">\n<defs>\n{arrowheads}</defs>\n'
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#ffffff" '
        f'stroke="{LINE}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, colour: str = INK, **options: object) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in options.items())
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{more}>{words}</text>'


def box(x: float, y: float, width: float, height: float, colour: str, words: str = "") -> str:
    inside = text(x + width / 2, y + height / 2 + 4, words, text_anchor="middle", font_size=12)
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
        f'fill="{PALE[colour]}" stroke="{colour}"/>' + (inside if words else "")
    )


def pill(x: float, y: float, colour: str, words: str) -> str:
    return f'<rect x="{x - 36:g}" y="{y - 12:g}" width="72" height="24" rx="12" fill="{colour}"/>' + text(
        x, y + 4, words, "#ffffff", text_anchor="middle", font_size=12
    )


def arrow(path: str, role: str = "pass", **options: object) -> str:
    colour = {"read": READ, "pass": PASS, "write": WRITE}[role]
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in options.items())
    return (
        f'<path d="{path}" stroke="{colour}" stroke-width="1.5" fill="none" marker-end="url(#{role})"{more}/>'
    )


def topologies() -> str:
    """Draw the data that cross the boundary of two chunks: chain, two-sided and grid."""
    bold = {"font_weight": "bold"}
    chain = [
        text(24, 34, "chain", READ, **bold),
        text(24, 52, "transfer maps, filters", FAINT, font_size=11),
        *(box(24 + 70 * k, 92, 56, 40, READ, f"{k}") for k in range(3)),
        *(arrow(f"M{80 + 70 * k},112 h12") for k in range(2)),
        text(24, 164, "summaries and carry-ins,", FAINT, font_size=11),
        text(24, 180, "in one direction", FAINT, font_size=11),
    ]
    two_sided = [
        text(272, 34, "two-sided", READ, **bold),
        text(272, 52, "tridiagonal systems", FAINT, font_size=11),
        *(box(272 + 70 * k, 116, 56, 40, READ, f"{k}") for k in range(3)),
        pill(370, 82, PASS, "system"),
        *(arrow(f"M{292 + 70 * k},116 L{350 + 14 * k},96") for k in range(3)),
        *(arrow(f"M{362 + 14 * k},95 L{308 + 70 * k},115", "write") for k in range(3)),
        text(272, 180, "two rows to a small system, values back", FAINT, font_size=11),
    ]
    grid = [
        text(524, 34, "grid", READ, **bold),
        text(524, 52, "tables, alignments, sweeps", FAINT, font_size=11),
        *(box(524 + 62 * j, 64 + 42 * i, 50, 30, READ, f"{i + j}") for i in range(3) for j in range(3)),
        *(arrow(f"M{574 + 62 * j},{79 + 42 * i} h10") for i in range(3) for j in range(2)),
        *(arrow(f"M{549 + 62 * j},{94 + 42 * i} v10") for i in range(2) for j in range(3)),
        text(524, 198, "edges; equal numbers run concurrently", FAINT, font_size=11),
    ]
    return card(740, 214, "Data that cross the boundary of two chunks", *chain, *two_sided, *grid)


def decay() -> str:
    """Draw the computed relative error of a chunk that is solved from a carry-in of 0."""
    steps = 1000
    rng = np.random.default_rng(3)
    s, t = rng.uniform(0.8, 1.0, steps), rng.uniform(0.0, 1.0, steps)
    difference = -3.0 * np.cumprod(s)
    w = np.empty(steps)
    state = 3.0
    for i in range(steps):
        w[i] = state = s[i] * state + t[i]
    error = np.abs(difference / w)
    corrected_steps = int(np.argmax(error < 2.0**-53))
    left, right, top, bottom = 96, 700, 44, 206

    def point(i: float, value: float) -> tuple[float, float]:
        high = (max(math.log10(value), -24) + 24) / 24
        return left + (right - left) * i / steps, bottom - (bottom - top) * high

    shown = range(0, int(np.argmax(error < 1e-24)), 4)
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in (point(i, error[i]) for i in shown))
    split, level = point(corrected_steps, 1)[0], point(0, 2.0**-53)[1]
    ticks = [
        text(
            left - 8,
            point(0, 10.0**k)[1] + 4,
            f"10<tspan dy='-5' font-size='9'>{k}</tspan>",
            FAINT,
            text_anchor="end",
            font_size=11,
        )
        for k in (0, -8, -16, -24)
    ]
    return card(
        740,
        300,
        "The influence of the carry-in decays",
        text(24, 28, "relative error of a chunk, solved from a carry-in of 0; s from 0.8 to 1"),
        f'<rect x="{left}" y="{top}" width="{split - left:.1f}" height="{bottom - top}" '
        f'fill="{PALE[PASS]}"/>',
        f'<path d="M{left},{top} V{bottom} H{right}" stroke="{LINE}" fill="none"/>',
        *ticks,
        f'<path d="M{left},{level:.1f} H{right}" stroke="{FAINT}" stroke-dasharray="3 3"/>',
        text(right, level - 6, "u, the rounding error", FAINT, text_anchor="end", font_size=11),
        f'<polyline points="{curve}" fill="none" stroke="{READ}" stroke-width="2"/>',
        text(right, bottom + 18, "steps →", FAINT, text_anchor="end", font_size=11),
        box(left, 240, split - left, 32, PASS, "corrected"),
        box(split, 240, right - split, 32, WRITE, "final after the first reading"),
        text(24, 260, "the chunk"),
    )


def _published(x: float, y: float, tile: int, memory: float) -> list[str]:
    """Draw a summary that is written to memory."""
    return [
        arrow(f"M{x:g},{y:g} V{memory:g}"),
        f'<circle cx="{x:g}" cy="{y:g}" r="9" fill="{PASS}"/>',
        text(x, y + 4, f"{tile}", "#ffffff", text_anchor="middle", font_size=11),
    ]


def lookahead() -> str:
    """Draw three blocks and their tiles over time."""
    parts = [
        text(24, 30, "blocks", font_weight="bold"),
        text(716, 30, "time →", FAINT, text_anchor="end", font_size=11),
    ]
    for b in range(3):
        y = 52 + 66 * b
        parts.append(text(24, y + 20, f"block {b}"))
        for k in range(3):
            x, tile = 96 + 210 * k, b + 3 * k
            parts.append(box(x, y, 66, 30, READ, f"tile {tile}"))
            parts.append(box(x + 136, y, 58, 30, WRITE, "write"))
            parts += _published(x + 81 + 20 * b, y + 15, tile, 250)
    parts += [
        f'<rect x="96" y="252" width="620" height="24" rx="12" fill="{PASS}"/>',
        text(
            406,
            268,
            "summaries in memory: 0 · 1 · 2 · 3 · 4 · 5 · 6 · 7 · 8",
            "#ffffff",
            text_anchor="middle",
            font_size=12,
        ),
        text(24, 268, "published"),
        text(
            24,
            302,
            "A block reads its tile (blue), publishes the summary (orange), combines all "
            "earlier summaries, and writes (green).",
            FAINT,
            font_size=11,
        ),
    ]
    return card(740, 318, "Look-ahead: blocks, tiles and summaries", *parts)


if __name__ == "__main__":
    for figure in (topologies, decay, lookahead):
        (Path(__file__).parent / f"{figure.__name__}.svg").write_text(figure())

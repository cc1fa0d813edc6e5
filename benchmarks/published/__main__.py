"""Draw the figures of the README, and write its numbers: ``python -m benchmarks.published``.

All are taken from stored results; a test fails if one is stale.
"""

from __future__ import annotations

from . import chart, readme, scaling


def main() -> None:
    chart.PATH.write_text(chart.draw())
    scaling.PATH.write_text(scaling.draw())
    readme.PATH.write_text(readme.filled(readme.PATH.read_text()))


if __name__ == "__main__":
    main()

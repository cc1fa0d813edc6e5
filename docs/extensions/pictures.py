"""Style of the pictures in the gallery."""

from typing import Any

STYLE = {
    "figure.figsize": (8.0, 4.2),
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "legend.frameon": False,
}


def reset(_gallery: dict[str, Any], _name: str) -> None:
    """Set the style before every example."""
    import matplotlib as mpl

    mpl.rcdefaults()
    mpl.use("agg")
    mpl.rcParams.update(STYLE)

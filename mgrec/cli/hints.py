"""What to install where a package is missing: for how mgrec itself was installed."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import Requirement


def install(extra: str) -> str:
    """The command that adds an extra of mgrec.

    No index need have mgrec: pip recorded where it came from, a folder, a repository or a file
    (PEP 610). Where that is gone, or is not recorded, as by conda, the packages are named.
    """
    return " ".join(["pip install", *map(shlex.quote, _named(extra, _origin()))])


def _origin() -> dict[str, Any]:
    try:
        text = distribution("mgrec").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(text) if text else {}


def _named(extra: str, origin: dict[str, Any]) -> list[str]:
    """The arguments of ``pip install``."""
    url = origin.get("url", "")
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        return [f"mgrec[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}"]
    if url.startswith("file:"):
        path = Path(url2pathname(urlsplit(url).path))
        if path.exists():
            is_editable = origin.get("dir_info", {}).get("editable", False)
            return [*(["-e"] if is_editable else []), f"{path}[{extra}]"]
    elif url:
        return [f"mgrec[{extra}] @ {url}"]
    return _packages(extra)


def _packages(extra: str) -> list[str]:
    """The requirements of an extra."""
    try:
        known = requires("mgrec") or []
    except PackageNotFoundError:
        return [f"mgrec[{extra}]"]
    found = map(Requirement, known)
    return [
        str(each).partition(";")[0].strip()
        for each in found
        if each.marker and each.marker.evaluate({"extra": extra}) and not _always(each)
    ]


def _always(requirement: Requirement) -> bool:
    return bool(requirement.marker and requirement.marker.evaluate({"extra": ""}))

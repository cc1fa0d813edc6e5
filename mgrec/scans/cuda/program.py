"""The program of a recurrence: its traced functions, its operands and the kernels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...core.algebra.transfer_map import TransferMap
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype, print_definitions
from ...engines.cuda.tracing import trace_transfer_map
from .sources import Source, print_source


@dataclass(frozen=True)
class Layout:
    """Constants that a kernel is compiled with.

    ``bulk``: tiles move by bulk copies (rows of the plain loop: by words of 16 bytes; columns: by
    words of 8 bytes of neighbouring ones). ``staged``: tiles pass through shared memory without
    bulk copies (columns: by words of 16 bytes).
    """

    threads: int  # of a block
    items: int  # steps of a thread
    stages: int = 1  # tiles of pending loads (0: columns are read when they are needed)
    reverse: bool = False  # time runs against memory
    segmented: bool = False  # rows begin inside tiles
    bulk: bool = False
    crowded: bool = False  # several rows may begin in the part of one thread
    guarded: bool = False  # steps whose composed maps overflow or underflow are repaired
    walking: bool = False  # a lane solves a row by the plain loop
    staged: bool = False
    team: int = 1  # blocks that share a group of columns
    blocks: int = 1  # of a multiprocessor
    chains: int = 1  # runs of steps side by side in a thread, if a map has branchless functions
    channels: int = 0  # columns of a tile of few columns (0: other layouts)
    ahead: int = 0  # look-ahead warps of such a tile
    distance: int = 1  # turns between publishing it and needing the states before it, 1 or 2
    lines: bool = False  # such a tile has 32 bytes of each step
    packed: bool = False  # results are columns of one array (steps, states)


def print_program(
    transfer_map: TransferMap, states: int, source: Source, layout: Layout,
    kernels: Sequence[str], entry: str, values: Sequence[bool] = (), **entry_fields: Any,
) -> str:  # fmt: skip
    """Print a program for states of so many scalars, and kernels of files of this package.

    `entry` has the ``__global__`` functions, a format of :func:`_print_arrays` and `entry_fields`.
    `values` says for each scalar whether it is one number for all rows before the first step.
    """
    values = values or [False] * states
    arrays = _print_arrays(source, values, len(transfer_map.identity))
    constants = {field.name.upper(): getattr(layout, field.name) for field in fields(layout)}
    headers = ["engines/cuda/scalar/numeric"]
    if source.stored != source.dtype:
        headers.append("engines/cuda/scalar/half")
    parts = (
        print_definitions(kernel_text(*headers), constants),
        trace_transfer_map(transfer_map, source.dtype, states),
        f"typedef Transfer::T T;\ntypedef {ctype(source.stored)} Stored;\n",
        _print_carry_in(values),
        print_source(source, source.shifts if layout.bulk else (), _is_in_pairs(source, kernels)),
        kernel_text(*kernels),
        entry.format(**arrays, **entry_fields),
    )  # fmt: skip
    # Launches of many shapes share one text.
    return sys.intern("".join(parts))


def _is_in_pairs(source: Source, kernels: Sequence[str]) -> bool:
    """Return whether items of two bytes stay in pairs in registers: tiles are twice as large."""
    is_narrow = source.stored != source.dtype and source.streams and not source.computed
    return bool(is_narrow) and kernels[0] == "scans/cuda/rows/determine"


def _print_carry_in(values: Sequence[bool]) -> str:
    """Print ``struct Entry``, the states before the first step of every row."""
    members = "".join(f"  {_carry_in_type(value)} of{k};\n" for k, value in enumerate(values))
    states = ", ".join(
        f"of{k}" if value else f"cast<T>(of{k}[row])" for k, value in enumerate(values)
    )
    method = f"  DEVICE Transfer::State at(long long row) const {{ return {{{{{states}}}}}; }}\n"
    return f"struct Entry {{\n{members}{method}}};\n"


def _carry_in_type(is_value: bool) -> str:
    return "T" if is_value else "const Stored*"


def _print_arrays(source: Source, values: Sequence[bool], width: int) -> dict[str, str]:
    """Return the fields for formats of kernels.

    ``operands`` are parameters and ``fills`` the values of a source. ``entry``, ``result``, ``map``
    and ``values`` are names of arrays; with ``_in`` or ``_out`` appended they are parameters.
    ``parameters`` are those of a kernel that writes states.
    """
    streams = [f"stream{k}" for k in range(len(source.streams))]
    operands = [*(f"const Stored* {name}" for name in streams), *source.parameters]
    fields = {
        "operands": "".join(f"{parameter}, " for parameter in operands),
        "fills": ", ".join([f"{{{', '.join(streams) or 'nullptr'}}}", *source.fills]),
    }
    states = range(len(values))
    arrays = {"entry": states, "result": states, "map": range(width), "values": source.costly}
    for prefix, numbers in arrays.items():
        names = [f"{prefix}{k}" for k in numbers]
        fields[prefix] = ", ".join(names)
        fields[f"{prefix}_in"] = ", ".join(f"const T* {name}" for name in names)
        type_out = "Stored" if prefix == "result" else "T"
        fields[f"{prefix}_out"] = ", ".join(f"{type_out}* {name}" for name in names)
    parameters = [f"{_carry_in_type(value)} entry{k}" for k, value in enumerate(values)]
    fields["entry_in"] = ", ".join(parameters)
    fields["parameters"] = "{operands}{entry_in}, {result_out}".format(**fields)
    return fields

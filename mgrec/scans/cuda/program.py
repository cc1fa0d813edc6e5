"""The program of a recurrence: its traced functions, its operands and the kernels.

``struct Source`` gives a kernel the operands of a step.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.algebra.fingerprint import StepFunction
from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.array_types import is_narrow
from ...core.arrays.chunk import Chunk, CoefficientOperand
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype, print_definitions
from ...engines.cuda.launches import as_argument, is_value
from ...engines.cuda.tracing import trace_coefficient, trace_fast_coefficient, trace_transfer_map


@dataclass(frozen=True)
class ScanLayout:
    """Constants that a kernel is compiled with.

    ``bulk``: tiles move by bulk copies (rows of the plain loop: by words of 16 bytes). ``staged``: tiles of
    rows pass through shared memory without bulk copies.
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
    all_columns: int = 0  # of a step, if such a tile has a line of 32 to 128 bytes of each
    lane_columns: int = 1  # neighbouring columns of a thread, which it reads and writes as one word
    batches: int = 1  # of `items` steps of a thread of a tile of few columns
    packed: bool = False  # results are columns of one array (steps, states)


def print_program(
    transfer_map: TransferMap,
    states: int,
    source: Source,
    layout: ScanLayout,
    kernels: Sequence[str],
    entry: str,
    carry_in: Sequence[str] = (),
    **entry_fields: Any,
) -> str:
    """Print a program for states of so many scalars, and kernels of files of this package.

    `entry` has the ``__global__`` functions, a format of :func:`_print_arrays` and `entry_fields`.
    `carry_in` are the results of :func:`carry_in_types`, by default arrays as they are stored.
    """
    carry_in = carry_in or ["const Stored*"] * states
    arrays = _print_arrays(source, carry_in, len(transfer_map.identity))
    constants = {field.name.upper(): getattr(layout, field.name) for field in fields(layout)}
    parts = (
        print_definitions(kernel_text("engines/cuda/numeric"), constants),
        trace_transfer_map(transfer_map, source.dtype, states),
        f"typedef Transfer::T T;\ntypedef {ctype(source.stored)} Stored;\n",
        _print_carry_in(carry_in),
        print_source(source, source.shifts if layout.bulk else (), _is_in_pairs(source, kernels)),
        kernel_text(*kernels),
        entry.format(**arrays, **entry_fields),
    )
    # Launches of many shapes share one text.
    return sys.intern("".join(parts))


def _is_in_pairs(source: Source, kernels: Sequence[str]) -> bool:
    """Return whether items of two bytes stay in pairs in registers: tiles are twice as large."""
    is_narrow = source.stored != source.dtype and source.streams and not source.computed
    return bool(is_narrow) and kernels[0] == "scans/cuda/rows/determine"


def carry_in_types(carry_in: Sequence[Any], source: Source) -> tuple[str, ...]:
    """Return the C++ types of the states before the first step of every row.

    A scalar of the state is one number for all rows, or an array: as operands are stored, or of the
    dtype of the computation.
    """
    return tuple(
        [
            "T" if is_value(x) else "const Stored*" if x.dtype == source.stored else "const T*"
            for x in carry_in
        ]
    )


def _print_carry_in(types: Sequence[str]) -> str:
    """Print ``struct Entry``, the states before the first step of every row."""
    members = "".join(f"  {name} of{k};\n" for k, name in enumerate(types))
    states = ", ".join(f"of{k}" if name == "T" else f"cast<T>(of{k}[row])" for k, name in enumerate(types))
    method = f"  DEVICE Transfer::State at(long long row) const {{ return {{{{{states}}}}}; }}\n"
    return f"struct Entry {{\n{members}{method}}};\n"


def _print_arrays(source: Source, carry_in: Sequence[str], width: int) -> dict[str, str]:
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
    states = range(len(carry_in))
    arrays = {"entry": states, "result": states, "map": range(width), "values": source.costly}
    for prefix, numbers in arrays.items():
        names = [f"{prefix}{k}" for k in numbers]
        fields[prefix] = ", ".join(names)
        fields[f"{prefix}_in"] = ", ".join(f"const T* {name}" for name in names)
        type_out = "Stored" if prefix == "result" else "T"
        fields[f"{prefix}_out"] = ", ".join(f"{type_out}* {name}" for name in names)
    parameters = [f"{name} entry{k}" for k, name in enumerate(carry_in)]
    fields["entry_in"] = ", ".join(parameters)
    fields["parameters"] = "{operands}{entry_in}, {result_out}".format(**fields)
    return fields


_CHEAP = 8
"""Most statements of a coefficient that is computed twice a step, not stored in a register."""
_TRANSCENDENTAL = re.compile(
    r"np_(arc\w+|\w*sin\w*|\w*cos\w*|\w*tan\w*|exp\w*|log\d\w*|log|cbrt|hypot|power)\(|power_of"
)
_INLINED = 64
"""Statements above which a coefficient is evaluated ahead (coefficients.py) and not inlined:
400 of them, inlined into each of 36 unrolled items, took NVRTC more than four minutes."""

_PAIRS = """
struct Pairs {
  unsigned v[(ITEMS + 1) / 2];
  DEVICE T operator[](int r) const {
    Stored item;
    item.bits = v[r / 2] >> 16 * (r % 2);
    return item;
  }
};
// Items are put in their order.
DEVICE inline void put(Pairs& pairs, int r, const Stored& item) {
  unsigned& pair = pairs.v[r / 2];
  pair = r % 2 ? pair | unsigned(item.bits) << 16 : unsigned(item.bits);
}"""
_LIFT = """\
  DEVICE Transfer::Map lift(const Items& items, int r) const {
    T step[Transfer::OPERANDS];
    operands(items, r, step);
    return Transfer::lift(step);
  }
"""
# Discarded branches are compiled, too, and cannot write to Pairs.
_UNLIFTED = (
    _LIFT
    + """\
  DEVICE Transfer::Map map(const Items& items, int r) const { return lift(items, r); }
  DEVICE void lift_items(Items& items) const {}"""
)
_LIFTING = (
    _LIFT
    + """\
  DEVICE Transfer::Map map(const Items& items, int r) const {
    if constexpr (!LIFTED) return lift(items, r);
    Transfer::Map map;
    if constexpr (LIFTED)
      for (int k = 0; k < Transfer::WIDTH; ++k) map.v[k] = items.v[k][r];
    return map;
  }
  DEVICE void lift_items(Items& items) const {
    if constexpr (LIFTED) {
#pragma unroll
      for (int r = 0; r < ITEMS; ++r) {
        const Transfer::Map map = lift(items, r);
        for (int k = 0; k < Transfer::WIDTH; ++k) items.v[k][r] = map.v[k];
      }
    }
  }"""
)


@dataclass
class Source:
    """C++ of a chunk's operands, and its arguments.

    `streams` are the operands of the chunk's full shape and the dtype `stored`, which pass through
    tiles; kernels compute in `dtype`. The struct has `members`, filled by `fills` from the kernel's
    `parameters`, one for each of the `arguments`. `functions` are the traced coefficients.

    `results` are arrays of states, if they are known. `steps` have each operand of ``lift``, for item r;
    `computed` each varying operand that is no stream, for (outer, step, inner); `branchless` the same
    without branches, which sets `odd` if its value is wrong, or "". `is_gathered` says whether varying
    operands are read from arrays, for existing steps only. `costly` has, for the number of each costly
    coefficient, that of its varying operand. `has_transcendental` says whether a coefficient has sines,
    powers or the like, each tens of operations. `widths` are those of arrays (steps, width) whose
    columns are streams, in that order; empty for an array a stream. Such an array begins at a multiple
    of 16 bytes.
    """

    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    streams: list[Any] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    fills: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    computed: list[str] = field(default_factory=list)
    branchless: list[str] = field(default_factory=list)
    results: Sequence[Any] = ()
    is_gathered: bool = False
    costly: dict[int, int] = field(default_factory=dict)
    has_transcendental: bool = False
    widths: tuple[int, ...] = ()

    @property
    def is_aligned(self) -> bool:
        """Whether every stream and result begins at a multiple of 16 bytes."""
        return all(array.data.ptr % 16 == 0 for array in (*self.streams, *self.results))

    @property
    def shifts(self) -> tuple[int, ...]:
        """The number of items from a multiple of 16 bytes to the start of each stream."""
        return tuple([stream.data.ptr % 16 // self.stored.itemsize for stream in self.streams])

    @property
    def columns(self) -> list[tuple[int, int]]:
        """The numbers of a step in the array of each stream, and which of them the stream is."""
        widths = self.widths or (1,) * len(self.streams)
        return [(width, k) for width in widths for k in range(width)]

    @property
    def words(self) -> int:
        """Registers of 4 bytes for the varying operands of a step, at least one operand."""
        return max(self.varying, 1) * max(self.dtype.itemsize // 4, 1)

    @property
    def varying(self) -> int:
        return len(self.streams) + len(self.computed)


def stored_dtype(chunk: Chunk) -> np.dtype[Any]:
    """Return the dtype of a chunk's streams if all have the same of two bytes, else the chunk's."""
    dtypes = {x.dtype for x in chunk.operands if getattr(x, "shape", ()) == chunk.shape}
    stored = dtypes.pop() if len(dtypes) == 1 else chunk.dtype
    return stored if is_narrow(stored) else chunk.dtype


def describe(chunk: Chunk, stored: np.dtype[Any] | None = None) -> Source:
    """Sort the operands of a chunk into streams, constants, gathered and computed ones.

    `stored` is the dtype of streams, by default that of the computation.
    """
    source = Source(chunk.dtype, stored or chunk.dtype)
    streamed = [
        k for k, operand in enumerate(chunk.operands) if _is_stream(operand, chunk.shape, source.stored)
    ]
    source.streams = [chunk.operands[k] for k in streamed]
    for k, operand in enumerate(chunk.operands):
        if k in streamed:
            source.steps.append(f"items.v[{streamed.index(k)}][r]")
        elif isinstance(operand, CoefficientOperand):
            _add_computed(source, operand, chunk)
            if is_costly(operand, chunk.dtype):
                source.costly[k] = source.varying - 1
        elif operand.size == 1:
            _add_constant(source, f"constant{k}", operand)
        else:
            source.is_gathered = True
            _add_varying(source, f"cast<T>({_gather(source, operand)})")
    return source


def print_source(source: Source, shifts: Sequence[int], in_pairs: bool) -> str:
    """Print ``struct Source``; needs ``T``, ``Stored``, ``Transfer``, ``ITEMS`` and ``REVERSE``.

    `shifts` are those of streams that are copied in vectors, or empty. With `in_pairs` registers
    hold two items of two bytes.
    """
    streams, varying = len(source.streams), source.varying
    functions, members = "".join(source.functions), " ".join(source.members)
    items = f"Pairs v[{streams}]" if in_pairs else f"T v[{max(varying, 1)}][ITEMS]"
    return f"""
constexpr int VARYING = {varying};
{_PAIRS if in_pairs else ""}
struct Items {{ {items}; long long step; }};
{functions}
struct Source {{
  static constexpr int STREAMS = {streams};
  static constexpr bool SHIFTED = {str(any(shifts)).lower()};
  // Items that a stream begins behind a multiple of 16 bytes, and those that are loaded for a tile.
  DEVICE static constexpr int shift(int p) {{
    return {"".join(f"p == {p} ? {n} : " for p, n in enumerate(shifts) if n)}0;
  }}
  DEVICE static constexpr unsigned loaded(unsigned tile, unsigned vector) {{
    return {streams} * tile + {sum(map(bool, shifts))} * vector;
  }}
  // Numbers of a step in the array of a stream, and which of them the stream is.
  DEVICE static constexpr int width(int p) {{
    return {"".join(f"p == {p} ? {n} : " for p, (n, _) in enumerate(source.columns) if n > 1)}1;
  }}
  DEVICE static constexpr int component(int p) {{
    return {"".join(f"p == {p} ? {k} : " for p, (_, k) in enumerate(source.columns) if k)}0;
  }}
  const Stored* stream[{max(streams, 1)}];
  {members}
  // Registers keep the lifted map where it needs no more of them than the operands.
  static constexpr bool LIFTED = {"false" if in_pairs else "Transfer::WIDTH <= VARYING"};
  DEVICE void operands(const Items& items, int r, T (&step)[Transfer::OPERANDS]) const {{
    const T own[] = {{{", ".join(source.steps)}}};
    for (int k = 0; k < Transfer::OPERANDS; ++k) step[k] = own[k];
  }}
{_UNLIFTED if in_pairs else _LIFTING}
  // Computes the operands that are no streams, for ITEMS steps of the column (outer, inner) from
  // `step` on; a contiguous row continues in the next one.
  DEVICE void complete(Items& items, long long outer, long long step, long long inner,
                       long long outers, long long steps) const {{
    if constexpr (VARYING > STREAMS) {{{_print_items(source)}
    }}
  }}
}};
"""


def _print_items(source: Source) -> str:
    """Print the code of the varying operands of all items that are no streams.

    The code has no branches: a branch for each item would expose its latency.
    """
    exact = _print_loop(source, source.computed)
    if not any(source.branchless):
        return exact
    branchless = [a or b for a, b in zip(source.branchless, source.computed, strict=True)]
    fallback = exact.replace("\n", "\n  ")
    return f"""
      bool odd = false;
      const long long first_outer = outer, first_step = step;{_print_loop(source, branchless)}
      if (__builtin_expect(odd, 0)) {{
        outer = first_outer;
        step = first_step;{fallback}
      }}"""


def _print_loop(source: Source, values: Sequence[str]) -> str:
    streams = len(source.streams)
    lines = "".join(f"\n          items.v[{streams + k}][r] = {value};" for k, value in enumerate(values))
    exists = "outer < outers && step >= 0 && step < steps" if source.is_gathered else "true"
    return f"""
#pragma unroll
      for (int r = 0; r < ITEMS; ++r) {{
        if (SEGMENTED && step == steps) step = 0, ++outer;
        if ({exists}) {{{lines}
        }}
        ++step;
      }}"""


@lru_cache(maxsize=1024)
def _statements(function: StepFunction, operands: tuple[Any, ...], dtype: np.dtype[Any]) -> int:
    return trace_coefficient(function, "coefficient", operands, dtype).count(";")


def is_costly(operand: CoefficientOperand, dtype: np.dtype[Any]) -> bool:
    """Return whether a coefficient has too many operations to be evaluated in a kernel."""
    return _statements(operand.function, _dtypes(operand), dtype) > _INLINED


def _dtypes(operand: CoefficientOperand) -> tuple[Any, ...]:
    return tuple(x.dtype for x in operand.operands)


def _is_stream(operand: Any, shape: tuple[int, int, int], stored: np.dtype[Any]) -> bool:
    if isinstance(operand, CoefficientOperand):
        return False
    return operand.shape == shape and operand.dtype == stored and operand.size > 1


def _add_constant(source: Source, name: str, operand: Any) -> None:
    cpp_type, is_number = ctype(operand.dtype), is_value(operand)
    source.steps.append(name)
    parameter = cpp_type if is_number else f"const {cpp_type}*"
    fill = f"cast<T>({'' if is_number else '*'}{name})"
    _add_member(source, parameter, name, as_argument(operand), "T", fill)


def _add_varying(source: Source, expression: str, branchless: str = "") -> None:
    source.steps.append(f"items.v[{len(source.streams) + len(source.computed)}][r]")
    source.computed.append(expression)
    source.branchless.append(branchless)


def _add_computed(source: Source, operand: CoefficientOperand, chunk: Chunk) -> None:
    name = f"coefficient{len(source.functions)}"
    traced = trace_coefficient(operand.function, name, _dtypes(operand), source.dtype)
    is_long = is_costly(operand, source.dtype)
    branchless = (
        "" if is_long else trace_fast_coefficient(operand.function, name, _dtypes(operand), source.dtype)
    )
    if is_long or branchless:
        traced = traced.replace("DEVICE inline", "DEVICE __attribute__((noinline))", 1)
    source.functions.append(traced + branchless)
    _add_member(source, "long long", f"{name}_first", np.int64(operand.first))
    one_row = chunk.shape[0] == 1 or chunk.shape[2] > 1
    is_transcendental = bool(_TRANSCENDENTAL.search(traced))
    source.has_transcendental |= is_transcendental
    is_cheap = not is_transcendental and traced.count(";") <= _CHEAP
    if one_row and not operand.operands and is_cheap:
        source.steps.append(f"{name}({name}_first + items.step + r)")
        return
    source.is_gathered |= not all(map(is_value, operand.operands))
    gathered = "".join(f", {_gather(source, x)}" for x in operand.operands)
    call = f"{name}_first + step{gathered})"
    quick_call = f"{name}_quickly(odd, {call}" if branchless else ""
    _add_varying(source, f"{name}({call}", quick_call)


def _gather(source: Source, operand: Any) -> str:
    name = f"gather{len(source.arguments)}"
    if is_value(operand):
        _add_member(source, ctype(operand.dtype), name, as_argument(operand))
        return name
    _add_member(source, f"const {ctype(operand.dtype)}*", name, operand)
    _, steps, inners = operand.shape
    strides = {"outer": steps * inners, "step": inners, "inner": 1}
    index = []
    for (axis, stride), length in zip(strides.items(), operand.shape, strict=True):
        if length > 1:
            _add_member(source, "long long", f"{name}_{axis}", np.int64(stride))
            index.append(f"{axis} * {name}_{axis}")
    return f"{name}[{' + '.join(index) or '0'}]"


def _add_member(
    source: Source, parameter: str, name: str, argument: Any, member: str = "", fill: str = ""
) -> None:
    source.members.append(f"{member or parameter} {name};")
    source.fills.append(fill or name)
    source.parameters.append(f"{parameter} {name}")
    source.arguments.append(argument)

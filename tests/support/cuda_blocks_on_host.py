"""CUDA programs whose blocks wait for each other, compiled by g++: a thread a block."""

from __future__ import annotations

import re
from pathlib import Path

from cuda_on_host import HostCompiler

_HEADER = Path(__file__).with_name("cuda_blocks_on_host.h")
_DYNAMIC = re.compile(r"extern __shared__ __align__\(\d+\) unsigned char memory\[\];")
# What each statement in assembler does here, by how it begins.
_STATEMENTS = {
    "bar.sync 1,": "host_meet(1, THREADS)",
    "bar.sync 6,": "host_meet(6, LOOKAHEAD)",
    "bar.sync %0,": "host_meet(barrier, threads)",
    "bar.arrive": "host_arrive(barrier, threads)",
    "st.relaxed": "host_store(place, first, second)",
    "{.reg .pred asked": "if (asked) host_load(place, first, second)",
    "ld.relaxed": "host_load(place, first, second)",
    "mbarrier.init": "*barrier = 0",
    "mbarrier.arrive": "host_expect(barrier, bytes)",
    "cp.async.bulk.shared": "host_bulk_load(to, from, bytes, barrier)",
    "cp.async.bulk.global": "host_bulk_store(to, from, bytes)",
    "cp.async.bulk.commit": "",
    "cp.async.bulk.wait": "",
    "cp.async.c": "",  # threads copy by themselves here
    "cp.async.wait": "",
    "fence": "",
    ' : "+l"': "",  # hides where a number comes from
    "{\\n.reg": "host_wait(barrier, parity)",
}


class BlockCompiler(HostCompiler):
    """As :class:`HostCompiler`, for blocks that run at the same time: up to 16 of them."""

    header, flags = _HEADER, ("-pthread",)

    def translate(self, text: str) -> str:
        text = _DYNAMIC.sub("alignas(128) static thread_local unsigned char memory[1 << 18];", text)
        before, *others = text.split("asm volatile(")
        return before + "".join(map(_translated, others))


def _translated(text: str) -> str:
    """What follows an ``asm volatile(``, its statement in C++."""
    statement, rest = text.split(");", 1)
    while statement.count("(") > statement.count(")"):
        more, rest = rest.split(");", 1)
        statement += ");" + more
    code = statement.strip().lstrip('"')
    found = next(each for begin, each in _STATEMENTS.items() if code.startswith(begin))
    return found + ";" + rest

"""Parts of tiles on a GPU are added up in the order of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mgrec.engines.cuda.device import Device
from mgrec.grids.recurrence import part_of_gpu
from mgrec.grids.table.cuda import phases

SHAPES = [(16384, 32768), (65536, 32768), (16384, 16384), (8192, 8192), (3, 9000, 12000)]
DTYPES = [("f4", "f4"), ("u1", "f4"), ("f8", "f8"), ("c16", "c16"), ("f2", "f8"), ("i4", "i8")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("x_dtype", "dtype"), DTYPES)
def test_all_parts_of_a_table_have_the_layout_of_the_whole(shape, x_dtype, dtype, monkeypatch):
    monkeypatch.setattr(phases, "_CELLS", 1 << 22)
    phases._choose_part.cache_clear()
    own = np.dtype(x_dtype), np.dtype(dtype)
    part = phases._choose_part(shape, 0, *own)
    phases._choose_part.cache_clear()
    if part is None or np.dtype(dtype).kind == "i":
        assert part is not None or (shape == (8192, 8192) and x_dtype == "u1")
        return
    three = (1, *shape)[-3:]
    whole = phases._layouts(three, *own)
    for rows in range(part.least, shape[-2] + 1, part.unit):
        assert phases._layouts((three[0], rows, three[2]), *own) == whole
    assert all(part.unit % layout.tile[0] == 0 for layout in whole)
    # The same on other devices.
    for device in (Device(90, 132, 227 * 1024), Device(80, 108, 163 * 1024)):
        monkeypatch.setattr(phases, "_SMALLEST", device)
        assert phases._layouts(three, *own) == whole


def test_tables_of_floats_are_not_cut_where_their_bits_would_change():
    floats = np.dtype("f4"), np.dtype("f4")
    assert phases._choose_part((16384, 32768), 1, *floats) is None
    assert phases._choose_part((1 << 20, 512), 0, *floats) is None
    assert phases._choose_part((0, 512), 0, *floats) is None
    assert phases._choose_part((1 << 20, 512), 1, np.dtype("i4"), np.dtype("i4")) is not None


@pytest.mark.parametrize(("columns", "count"), [(400_000, 4), (200_000, 3), (50_000, 1)])
def test_alignments_are_cut_into_few_parts(columns, count):
    part = part_of_gpu((200_000, columns))
    assert columns // part.least == count

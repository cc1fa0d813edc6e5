"""Small arrays of kernels on the stack.

numba compiles `np.empty` as several functions for each dtype and number of axes, in 0.03 to 0.08 s,
and counts references to all arrays of a kernel that has one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.npydecl import parse_dtype
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from .lanes import CACHE_LINE


def allocate(builder: Any, nbytes: Any) -> Any:
    """Return the address of so many bytes on the stack, at the start of a cache line."""
    memory = builder.alloca(ir.IntType(8), nbytes)
    memory.align = CACHE_LINE
    return memory


def _array_maker(is_zero: bool) -> Any:
    def make(_: Any, shape: Any, dtype: Any) -> Any:
        is_vector = isinstance(shape, types.Integer)
        array_type = types.Array(parse_dtype(dtype), 1 if is_vector else len(shape), "C")

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            shape_type, item_type = signature.args[0], context.get_data_type(array_type.dtype)
            size_types = [shape_type] if is_vector else shape_type
            sizes = [values[0]] if is_vector else cgutils.unpack_tuple(builder, values[0])
            sizes = [
                context.cast(builder, size, size_type, types.intp)
                for size, size_type in zip(sizes, size_types, strict=True)
            ]
            itemsize = context.get_abi_sizeof(item_type)
            strides = [context.get_constant(types.intp, itemsize)]
            for size in reversed(sizes):
                strides.insert(0, builder.mul(strides[0], size))
            nbytes, *strides = strides
            memory = allocate(builder, nbytes)
            if is_zero:
                cgutils.memset(builder, memory, nbytes, 0)
            array = context.make_array(array_type)(context, builder)
            data = builder.bitcast(memory, item_type.as_pointer())
            populate_array(array, data, sizes, strides, itemsize, meminfo=None)
            return array._getvalue()

        return array_type(shape, dtype), code

    return intrinsic(make)


stack_empty = _array_maker(is_zero=False)
"""``stack_empty(shape, dtype)`` is ``np.empty(shape, dtype)``, valid until the function returns.

A thread's stack has some megabytes: the arrays of a kernel must have some tens of kilobytes in all,
and no loop may make any.
"""
stack_zeros = _array_maker(is_zero=True)
"""The same as :func:`stack_empty`, of zeros."""

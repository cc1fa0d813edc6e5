"""Small arrays on the stack of a kernel, pointers, and the larger and smaller of two numbers."""

import gc

import numpy as np
import pytest

from mgrec.engines.cpu.compilation import compile_kernel
from mgrec.engines.cpu.kernel_cache import IN_MEMORY
from mgrec.engines.cpu.pointers import (
    advance_pointer,
    as_matrix,
    count_up,
    length,
    pointer_to,
    pointers_to,
    stack_matrix,
    stack_vector,
)
from mgrec.engines.cpu.scalars import larger_of, smaller_of
from mgrec.engines.cpu.stack import stack_empty, stack_zeros


def test_arrays_on_the_stack_have_the_layout_of_new_arrays():
    def kernel(n, x, out):
        vector, matrix = stack_empty(n, np.int64), stack_zeros((n, 3), x.dtype)
        for i in range(n):
            vector[i] = 10 * i
            matrix[i, 1] = x[i]
        for i in range(n):
            for j in range(3):
                out[i, j] = matrix[i, j] + vector[i]
        return matrix.strides[0], matrix.strides[1], vector.itemsize

    for dtype in (np.float32, np.complex128):
        x, out = np.arange(5, dtype=dtype), np.full((5, 3), -1, dtype)
        strides = compile_kernel(kernel, IN_MEMORY, allocates=False)(5, x, out)
        expected = np.zeros((5, 3), dtype)
        assert strides == (*expected.strides, 8)
        expected[:, 1] = x
        np.testing.assert_array_equal(out, expected + 10 * np.arange(5)[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_vectors_and_matrices_without_bounds_are_parts_of_arrays(dtype):
    def kernel(arrays, out):
        x, marks = pointers_to(arrays)
        n = len(arrays[1])
        vector, matrix = stack_vector(n, np.int64), stack_matrix(n, 3, dtype)
        rows = as_matrix(advance_pointer(pointer_to(out), 3), 3)
        for i in range(n):
            vector[i] = 10 * marks[i]
            for j in range(3):
                matrix[i, j] = x[3 * i + j]
        for i in range(n):
            for j in range(3):
                rows[i, j] = matrix[i, j] + vector[i]

    x, marks = np.arange(15, dtype=dtype).reshape(5, 3), np.arange(5, dtype=np.uint8)
    out = np.full((6, 3), -1, dtype)
    compile_kernel(kernel, IN_MEMORY, allocates=False)((x, marks), out)
    np.testing.assert_array_equal(out[1:], x + 10 * marks[:, None])
    np.testing.assert_array_equal(out[0], -1)


@pytest.mark.parametrize("size", [4, (0,) * 4])
def test_numbers_are_counted_as_by_range(size):
    def kernel(size, starts, sums):
        for k in range(len(starts)):
            for i in count_up(starts[k], length(size)):
                # The loop counts on, whatever its body does to the number.
                i *= 10
                sums[k] += i + 1

    starts, sums = np.arange(-1, 7), np.zeros(8, np.int64)
    compile_kernel(kernel, IN_MEMORY, allocates=False)(size, starts, sums)
    expected = [sum(10 * i + 1 for i in range(start, 4)) for start in starts]
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("numbers", [(3, 7), (7, 3), (2.5, np.nan), (np.nan, 2.5), (-0.0, 0.0), (4, 2.5)])
def test_the_larger_and_the_smaller_number_are_those_of_python(numbers):
    def kernel(x, y):
        return larger_of(x, y), smaller_of(x, y)

    found = compile_kernel(kernel, IN_MEMORY, allocates=False)(*numbers)
    np.testing.assert_array_equal(found, (max(numbers), min(numbers)))
    np.testing.assert_array_equal(np.signbit(found), np.signbit((max(numbers), min(numbers))))


def test_unsigned_numbers_are_compared_as_such():
    def kernel(array):
        return larger_of(array[0], array[1])

    numbers = np.array([1, 2**64 - 1], np.uint64)
    assert compile_kernel(kernel, IN_MEMORY, allocates=False)(numbers) == 2**64 - 1


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_collection_is_as_before_after_a_kernel_is_compiled(is_enabled):
    states = []
    before = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        kernel = compile_kernel(lambda x: x + 1, IN_MEMORY, allocates=False)
        assert kernel(1) == 2
        states.append(gc.isenabled())
        with pytest.raises(TypeError):
            compile_kernel(lambda x: x.no_such_attribute, IN_MEMORY)(1)
        states.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert states == [is_enabled, is_enabled]

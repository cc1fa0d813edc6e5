"""Linear recurrences of first order."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..algebra.affine import affine
from ..families.problem import Problem
from ..families.transfer.door import as_rows, check
from ..placement import solved_by_kind


@partial(solved_by_kind, by_numbers=False)
def linear_recurrence(
    s: Any,
    t: Any,
    initial: Any = None,
    *,
    axis: int = -1,
    reverse: bool = False,
    reset: Any = None,
    memory: str = "stream",
    method: str = "auto",
    out: Any = None,
) -> Problem:
    """Solve w_i = s_i·w_{i-1} + t_i along an axis.

    Parameters
    ----------
    s : scalar, array_like or Coefficient
        The coefficients. A scalar is a constant and is never expanded to an array; an array
        broadcasts against `t`; a :class:`mgrec.Coefficient` is computed on the fly.
    t : array_like, scalar or Coefficient
        The inhomogeneous terms. Integers, floats and complex numbers of at most 64 bits a
        component, any strides and byte order; a NumPy, CuPy or Dask array.
    initial : scalar or array_like, optional
        w before the first step: a scalar, or of the shape of the result without `axis`; 0
        when not given.
    axis : int, optional
        The axis of the broadcast operands along which the recurrence runs.
    reverse : bool, optional
        Run from the end: w_i = s_i·w_{i+1} + t_i.
    reset : array_like, optional
        Where the state starts anew: `initial` is the state before every step that is marked, and
        nothing before it counts, nor does nan. A mask of bool; or labels (integers, strings,
        dates, or an index or a categorical of pandas), of which every change is a mark. 1-d along
        `axis`, or broadcast to the result. A UserWarning says where a label in host memory comes
        again after others. See :func:`mgrec.starts` for sequences of many lengths.
    memory : {"stream", "two-pass"}, optional
        For Dask arrays. "stream" holds the operands of a group of chunks between the phases, or
        the results and first steps of chunks that forget (see Notes), which are read once, on a
        GPU with their coefficients; "two-pass" reads every chunk twice instead and holds none,
        which pays when the propagation must wait, as with many rows of chunks, or when reading is
        cheap.
    method : {"auto", "single-pass", "p-scheme"}, optional
        For arrays on a GPU. "single-pass" reads every operand once; "p-scheme" is the scheme of
        [1]_ with its policy for blocks and threads (see :mod:`mgrec.tuning`), which reads them
        twice; "auto" takes the faster one, at present the single pass always.
    out : array, optional
        Where to write w: a C-contiguous NumPy or CuPy array of the result's shape and dtype
        that shares no memory with an operand. Saves the allocation, which for large NumPy
        arrays costs more than the recurrence. Not for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        w, of the broadcast shape and of dtype ``numpy.result_type(s, t, initial)``, computed
        in that dtype (float16 in float32); of the kind of the operands: NumPy, CuPy on the
        operands' device and the current stream, or Dask, where an operand is one: lazy, and
        chunked like `t`; or of another library, whose arrays they are (see Notes). `out`, where
        it was given.

    Raises
    ------
    TypeError
        A dtype is refused (bool, object, longdouble, dates), an array is masked, NumPy arrays
        stand beside CuPy arrays, or a Coefficient cannot be compiled.
    ValueError
        Shapes, chunks or devices do not fit together, or there is no such axis.
    RuntimeError
        The current stream is being captured into a CUDA graph, and rows are not walked.

    See Also
    --------
    mgrec.scan : recurrences of any transfer map.

    Notes
    -----
    *Accuracy.* Let u be the unit roundoff of the dtype (2**-24, 2**-53), η its smallest
    subnormal number, and

        W_i = |s_i|·W_{i-1} + |t_i|,  W_0 = |initial|,    A_i = |s_i|·A_{i-1} + 1,  A_0 = 0.

    Then, as long as W stays finite in the dtype, for any chunks and any number of threads,

        |w_i − exact| ≤ 4·(i + 1)·u·W_i + 4·η·A_i    (i = 1, 2, ...; complex: 4 times that).

    The sequential loop itself has 2·(i + 1)·u·W_i. On a GPU the last term is 8·η·A_i·V_i, where V_i
    is the largest of 1, W_1, ..., W_i: the product of some steps may underflow there before it
    meets a state. Integers are exact modulo 2**bits.

    *Special values.* nan, +inf and -inf stand where the sequential loop in the same dtype has
    them, and the result is finite where the loop's is. On one machine a block of steps whose
    coefficients leave a range around 1, in which products are normal numbers, is done again
    by that loop, and a row whose result comes near overflow is done again from its start, so
    that it has the loop's bits. A chunk's product of coefficients is carried as a mantissa
    and an exponent: it neither overflows nor vanishes, and a state of 0 stays 0 through any
    growth. Some chunks cannot be summarised by a few scalars: their response to a state of 0
    comes near overflow, their products fall and rise again by 2**500 (2**200 in float32), or an
    operand is infinite. They travel to the propagation with their operands and are done again
    there: an unstable recurrence over many Dask chunks is solved at the speed of one worker.

    There are two limits. Where W overflows and rounding alone decides whether the loop does, as
    at an unstable fixed point (s = 1.1, t = 1 − s, w = 1), Dask chunks may overflow where the
    loop does not, and arrays of any kind may not overflow where the loop does. For complex
    numbers only the positions of non-finite results are promised, and not within a factor of 4
    of overflow.

    *Segments.* With `reset` the results of a segment are those of a call of its own, nan and inf as
    well. On a GPU no row is done again: steps of a segment are composed as those of
    :func:`mgrec.scan` are, and where their coefficients or terms overflow before they meet a state,
    the result may be nan or inf although the loop's is finite. For complex numbers the result may
    also be nan where a product of coefficients underflows and the state is infinite.

    *Many calls.* What was checked, compiled and chosen for CuPy arrays, or NumPy arrays of up to
    65,536 numbers, is kept for later calls of the same kind: of arrays of the same shapes, dtypes
    and strides (on a GPU at addresses that are as far from multiples of 16 bytes), of numbers of
    the same types, and of the same options. The numbers themselves go to kernels as they come, and
    no array is kept.

    *CUDA graphs.* A graph can capture a call where every row is
    walked by the plain loop: many rows of up to 128 steps, or of 512 along a slow axis; `out` and
    states of `initial` must be there already. Others raise RuntimeError: blocks that wait for
    each other need a number of their own for every launch, which a graph would launch again.

    *Arrays of other libraries.* Every function takes arrays of torch, jax and whatever else hands
    memory over by DLPack, in host memory or on a GPU, without a copy, and gives back arrays of that
    library. NumPy and CuPy arrays may stand beside those of one library, where they are on the same
    device. Gradients are not computed: pass ``t.detach()``. torch's current stream and CuPy's wait
    for each other; a call of jax arrays on a GPU returns when its kernels are done. On a GPU a call
    of torch tensors takes 0.17 ms more than one of CuPy arrays, and one of jax arrays 0.28 ms. jax
    copies results in host memory that are not aligned to 64 bytes, and must have their dtype:
    float64 and int64 only where ``jax_enable_x64`` is set. Series and tables of pandas, cuDF and
    Dask keep their index, and their name where all operands have it; the axes of a table are (rows,
    columns), missing floats are nan, and Dask's stay lazy.

    *DataArrays of xarray* are aligned exactly and broadcast by the names of their dimensions, and
    results are DataArrays with their coordinates. `axis` counts the dimensions of the first
    DataArray of those with the most, which must have all; results have them in its order. `initial`
    has them without `axis`. The name stays where all operands have it, and attributes stay where
    they agree, unless ``xarray.set_options(keep_attrs=False)``. NumPy and CuPy arrays may stand
    beside DataArrays; they count axes. Methods that take dimensions by name: :mod:`mgrec.xarray`.

    *Cost.* One pass over the memory on one thread. On several threads, and over Dask chunks, `s`
    and `t` are read twice, once to summarise and once to solve, unless the recurrence forgets.
    Then each part is solved at once from a state of 0, and its first steps again from the true
    one, until what is left of that is below u·|w_i|: the product of the coefficients tells. That
    is so for real numbers in arrays, in chunks of 2**19 numbers or more in host memory whose first
    steps, an eighth of them at most, shrink the largest number of the dtype below the rounding
    error of a result; and in chunks of 2**26 numbers or more of CuPy arrays, of one row or with a
    constant coefficient, whose first steps, a 256th (of a constant an eighth) at most, shrink it
    below the smallest number. Results of one long row depend, in their last bits, on its chunks
    and on the number of threads (``MGREC_NUM_THREADS``), and on nothing else.

    References
    ----------
    .. [1] A. Wakatani, the P-scheme (2004) and, for GPUs, P-scheme/G (2012, 2013).

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> mgrec.linear_recurrence(0.5, np.ones(5))
    array([1.    , 1.5   , 1.75  , 1.875 , 1.9375])

    Coefficients in an array, from the end, and for every row of a table:

    >>> s = np.array([0.5, 0.0, 2.0])
    >>> mgrec.linear_recurrence(s, np.ones((2, 3)), initial=[1.0, 2.0], reverse=True)
    array([[1.5, 1. , 3. ],
           [1.5, 1. , 5. ]])

    Three segments, by their labels:

    >>> mgrec.linear_recurrence(1, np.ones(6, int), reset=[0, 0, 0, 1, 2, 2])
    array([1, 2, 3, 1, 1, 2])

    A Dask array stays lazy:

    >>> import dask.array as da
    >>> w = mgrec.linear_recurrence(0.5, da.ones(10**6, chunks=10**5))
    >>> w.chunksize
    (100000,)
    >>> float(w[-1].compute())
    2.0
    """
    start = 0 if initial is None else as_rows(initial)
    options = {"memory": memory, "method": method, "out": out, "reset": reset}
    return check(affine, {"s": s, "t": t}, start, axis, reverse, **options)

"""Affine maps of n states: their size, operators and structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.validation import as_integer, is_one_of

LARGEST = 16
"""Largest number of states: a summary has n² + n numbers a row."""

ALGEBRAS = (("+", "*"), ("max", "+"), ("min", "+"), ("logsumexp", "+"))
STRUCTURES = ("general", "diagonal", "block-diagonal", "companion")


@dataclass(frozen=True)
class MatrixMap:
    """Maps w = M ⊗ w ⊕ b of a vector w of n numbers, over a pair of operators (⊕, ⊗).

    Attributes
    ----------
    n : int
    algebra : (str, str)
        The operators (⊕, ⊗).
    structure : {"general", "diagonal", "block-diagonal", "companion"}
        Which entries of M an operand has.
    block : int
        Rows of a diagonal block; 0 for other structures.
    takes_vectors : bool
        True: the signature of a call with the map has the values of its states.
    """

    takes_vectors: ClassVar[bool] = True
    n: int
    algebra: tuple[str, str] = ("+", "*")
    structure: str = "general"
    block: int = 0

    @property
    def name(self) -> str:
        return f"matrix({self.n})"

    @property
    def matrix_shape(self) -> tuple[int, ...]:
        """Shape of M in the operand."""
        if self.structure == "general":
            return self.n, self.n
        if self.structure == "block-diagonal":
            return self.n // self.block, self.block, self.block
        return (self.n,)

    @property
    def of_block(self) -> MatrixMap:
        """The map of one diagonal block."""
        return MatrixMap(self.block, self.algebra)

    @property
    def algebra_number(self) -> int:
        """Index of the pair of operators in `ALGEBRAS`, for kernels."""
        return ALGEBRAS.index(self.algebra)

    @property
    def may_lose_digits(self) -> bool:
        """Whether products are not used where they grow, as those of crowded poles before they decay."""
        return self.structure == "companion" and self.algebra == ("+", "*")

    @property
    def zero(self) -> float:
        """The neutral element of ⊕."""
        return (0.0, -np.inf, np.inf, -np.inf)[self.algebra_number]

    @property
    def infinity(self) -> float:
        """An infinite number that is not the neutral element of ⊕."""
        return -self.zero if self.zero else np.inf

    @property
    def one(self) -> float:
        """The neutral element of ⊗."""
        return 1.0 if self.algebra == ("+", "*") else 0.0


def matrix(
    n: int, algebra: Any = ("+", "*"), structure: str = "general", block: int | None = None
) -> MatrixMap:
    """Return the affine maps of n states, for :func:`mgrec.scan`.

    One step is w = M·w + b, with a matrix M and a vector b of each step. Other pairs of operators
    replace sum and product.

    Parameters
    ----------
    n : int
        Number of states, from 1 to 16.
    algebra : (str, str), optional
        The operators that take the places of + and ·: ``("+", "*")``, ``("max", "+")``,
        ``("min", "+")`` or ``("logsumexp", "+")``. The default is ``("+", "*")``.
    structure : {"general", "diagonal", "block-diagonal", "companion"}, optional
        Which entries M has, and the operand with them. "diagonal": the diagonal, of shape (n,).
        "block-diagonal": the diagonal blocks, of shape (n/block, block, block). "companion": the
        first column, of shape (n,); the entries above the diagonal are ones, of ⊗, so that
        ``w[i] = M[i]*w[0] + w[i + 1] + b[i]``. The default is "general", of shape (n, n).
    block : int, optional
        Rows of each block of a "block-diagonal" matrix, a divisor of n.

    Returns
    -------
    MatrixMap
        Pass it to :func:`mgrec.scan` with two operands and the state before the first step:
        ``scan(map, M, b, initial=w)``. M has the shape (..., steps, n, n), or that of the structure
        in place of the last two axes; b has the shape (..., steps, n), and `initial` (..., n). All
        axes before those of a matrix and of a vector broadcast; ``axis`` and ``reset`` of ``scan``
        refer to these axes alone. A matrix (n, n) is that of every step. The result has the shape
        (..., steps, n).

    Raises
    ------
    TypeError
        If `n` or `block` is not an integer.
    ValueError
        If `n` is not from 1 to 16, `algebra` or `structure` is not supported, or `block` does not
        divide n.

    See Also
    --------
    mgrec.signal.lfilter : Filters whose coefficients vary in time, which are companion maps.

    Notes
    -----
    *Dtype.* Operands are real. States are computed in float64, and results are float32 if the
    operands and `initial` are, or float64.

    *Accuracy.* On the CPU each sequence is computed step by step, in the order of the sums
    ``M[0, 0]*w[0] + M[0, 1]*w[1] + ... + b[0]``. A chunk of a Dask array contributes the images of
    n unit vectors, each with an exponent of its own, so that products of matrices neither overflow
    nor vanish. States then differ from those of the loop by the rounding of one more product a
    chunk, of M of the whole chunk with the state before it; so do segments on a GPU. Where products
    grow and states do not, as in filters whose poles crowd, digits are lost. The loop computes the
    states after companion matrices over ``(+, *)`` whose products exceed 64 in a chunk, and 1,000 on a
    GPU; smaller products cost up to 4e-9 of the largest state there (four poles at 0.9). General
    matrices are not examined: with n poles at 0.98, errors are 50, 350 and 10⁷ times those of the
    loop in chunks, for n = 3, 4 and 6, and on a GPU 50,000 for n = 3; for larger n no digit is left
    there.

    *Special values.* nan and inf occur in the same states as in the loop, and products of matrices
    that overflow or vanish do no harm: rows of two states on a GPU and chunks whose products or
    states grow by 1e77 or more are solved again by the loop. There are four exceptions. States that
    overflow inside a chunk may be finite in the next one if the matrices between shrink as much as
    they grow. A state that is infinite before a chunk, and after the first 16 matrices of it, or on
    a GPU any, may be infinite after the chunk where the loop has nan or the other sign; 16 are
    fewer in chunks of more than 256 rows and fewer than 512 steps. Other pairs of operators may
    give nan in a chunk where the loop gives inf, after inf in M, or -inf for (min, +). On a GPU
    rows in segments (see *Cost*) may have nan in place of inf or the reverse after a state that
    overflows, and in place of finite states that are the difference of terms that overflow. In
    segments of a diagonal over logsumexp, nan in one state reaches all.

    *Cost.* A chunk of a Dask array is read twice, and its summary takes n + 1 times as long as its
    states. A chunk that is solved again is copied to host memory for its summary. On a GPU one
    thread solves such a row of two states. A step of a general matrix takes n² products, and one of
    a diagonal or a companion matrix n. Diagonal blocks are independent sequences: n/block small
    maps take the place of one large one, in the summary too. On a GPU contiguous rows of two states
    are read once, and larger maps twice, in segments of at least 32 steps. The second reading of
    general float64 matrices of four states is from the cache, in rows of at least 2,048 steps
    without `reset`, on GPUs of compute capability 9.0. Diagonals run as maps of scalars. On a GPU
    method "p-scheme" reads other matrices twice, and "single-pass" is "auto" for them. DataArrays,
    and on the CPU ``method`` other than "auto", are not supported.

    Examples
    --------
    A mass on a spring, pushed at the first step; position and speed:

    >>> import numpy as np, mgrec
    >>> M = np.array([[1.0, 0.5], [-0.5, 0.5]])
    >>> push = np.zeros((4, 2))
    >>> push[0, 1] = 1.0
    >>> mgrec.scan(mgrec.maps.matrix(2), M, push, initial=np.zeros(2))
    array([[ 0.   ,  1.   ],
           [ 0.5  ,  0.5  ],
           [ 0.75 ,  0.   ],
           [ 0.75 , -0.375]])

    Longest paths through a graph of two nodes, whose edges change with each step:

    >>> edges = np.array([[[1.0, 4.0], [-np.inf, 2.0]], [[0.0, 3.0], [5.0, 1.0]]])
    >>> longest = mgrec.maps.matrix(2, ("max", "+"))
    >>> mgrec.scan(longest, edges, np.full(2, -np.inf), initial=np.zeros(2))
    array([[4., 2.],
           [5., 9.]])
    """
    size = as_integer("n", n)
    if not 1 <= size <= LARGEST:
        raise ValueError(f"n must be from 1 to {LARGEST}; got {size}")
    is_pair = isinstance(algebra, (tuple, list)) and all(isinstance(name, str) for name in algebra)
    if not is_pair or tuple(algebra) not in ALGEBRAS:
        wanted = ", ".join(map(str, ALGEBRAS))
        raise ValueError(f"algebra must be one of {wanted}; got {algebra!r}")
    if not is_one_of(structure, STRUCTURES):
        wanted = ", ".join(map(repr, STRUCTURES))
        raise ValueError(f"structure must be one of {wanted}; got {structure!r}")
    if (block is None) == (structure == "block-diagonal"):
        raise ValueError(f"block must be passed for 'block-diagonal' alone; got {block!r}")
    rows = 0 if block is None else as_integer("block", block)
    if block is not None and (rows < 1 or size % rows):
        raise ValueError(f"block must divide n, {size}; got {rows}")
    return MatrixMap(size, tuple(algebra), structure, rows)

"""Transfer maps ready for use with :func:`mgrec.scan`.

==============  =====================================  ==================  ==========
map             one step                               operands            state
==============  =====================================  ==================  ==========
``affine``      w = s·w + t                            s, t                w
``mobius``      p = (a·p + b) / (c·p + d)              a, b, c, d          p
``max_plus``    w = max(w + s, c)                      s, c                w
``min_plus``    w = min(w + s, c)                      s, c                w
``matrix2``     x, y = a·x + b·y + e, c·x + d·y + f    a, b, c, d, e, f    x, y
==============  =====================================  ==================  ==========

:func:`matrix` returns maps of n states, whose operands are arrays of matrices and vectors.
"""

from .scans.maps import affine, matrix, matrix2, max_plus, min_plus, mobius

__all__ = ["affine", "matrix", "matrix2", "max_plus", "min_plus", "mobius"]


def __dir__() -> list[str]:
    return __all__

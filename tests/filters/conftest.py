"""The library of the arrays that a test filters."""

import numpy as np
import pytest


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def xp(request):
    """NumPy, or CuPy."""
    return np if request.param == "host" else pytest.importorskip("cupy")

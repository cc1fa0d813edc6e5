"""One call of each public function of arrays, and the kinds of arrays that it is called with."""

import inspect
import sys
from typing import Any

import numpy as np

from mgrec.cli.examples import EXAMPLES, TABLE, Example, X


class Case(Example):
    """An example call of a public function."""

    @property
    def qualified_name(self) -> str:
        """Name with the module, if it is one of :mod:`mgrec.hmm` or :mod:`mgrec.statespace`."""
        return self.path.removeprefix("signal.").removeprefix("ndimage.")

    @property
    def lists(self) -> list[Any]:
        """The other arguments that are lists of numbers."""
        return [value for value in self.others.values() if isinstance(value, list)]


CASES = [Case(**vars(example)) for example in EXAMPLES]


def mapped_lists(value: Any, dtype: Any) -> Any:
    """Return a list of numbers as an array; integers, which are codes, stay integers."""
    array = np.asarray(value) if isinstance(value, (list, np.ndarray)) else None
    is_float = array is not None and array.dtype.kind == "f"
    return array.astype(dtype) if is_float else value


# --- the table of the documentation -------------------------------------------------------------


def dask_array(array: np.ndarray) -> Any:
    import dask.array as da

    return da.from_array(array)


def tensor(array: np.ndarray) -> Any:
    import torch

    return torch.tensor(array)


def data_array(array: np.ndarray) -> Any:
    import xarray

    return xarray.DataArray(array, dims=("y", "x")[-array.ndim :])


def series(array: np.ndarray) -> Any:
    """A Series of steps, or of the first row of an image; pandas raises ValueError for frames."""
    import pandas

    if array.shape[-1] == 1:
        return pandas.Series(array[:, 0])
    if array is TABLE:
        return pandas.Series(array[0])
    return pandas.Series(array)


def data_frame(array: np.ndarray) -> Any:
    import pandas

    return pandas.DataFrame(array if array.ndim == 2 else array[:, None].repeat(2, axis=1))


LAZY_TABLE = "Dask DataFrame"


def dask_data_frame(array: np.ndarray) -> Any:
    from dask import dataframe

    return dataframe.from_pandas(data_frame(array), npartitions=2)


KINDS = {
    "list, array": np.ndarray.tolist,
    "Dask array": dask_array,
    "tensor": tensor,
    "DataArray": data_array,
    "Series": series,
    "DataFrame": data_frame,
    LAZY_TABLE: dask_data_frame,
}
"""By column of the table: what makes an array of the kind."""
HEADER = ["function", "default axis", *KINDS, "Dataset", "float16 in, out", "bool"]
COMPUTED_IN = {
    "float64": {"ewm", "decimate", "spline_filter1d", "spline_filter"},
    "int64": {"smith_waterman"},
}
"""Dtypes in which functions compute with arrays of float16, other than float32; functions of models
compute in float64."""
OF_FLOAT16 = {
    "float16": {"linear_recurrence", "rational_recurrence", "scan", "weighted_scan", "lfilter", "sosfilt"},
    "float64": {"ewm", "decimate", "spline_filter1d", "spline_filter"},
}
"""Dtypes of results of float16 other than float32."""
OF_BOOL = {
    "bool": {
        "gaussian_filter1d",
        "gaussian_filter",
        "gaussian_laplace",
        "uniform_filter1d",
        "uniform_filter",
    },
    "int64": {"summed_area_table"},
}
"""Dtypes of results of bools other than float64."""
CODES = {
    "smith_waterman": "int64",
    "hmm.viterbi": "int32",
    "hmm.sample": "int32",
    "hmm.log_likelihood": "float64",
    "statespace.log_likelihood": "float64",
}
"""Dtypes of the last results of functions whose results do not have the dtype of the data."""


NOT_MAPPED = {"factor_tridiagonal", "smith_waterman"}
"""Functions besides those of models that are not called for each variable of a Dataset."""


def dtype_of(case: Case, dtypes: dict[str, set[str]], default: str) -> str:
    """Return the dtype of the last result."""
    found = [dtype for dtype, names in dtypes.items() if case.name in names]
    return CODES.get(case.qualified_name, (found or [default])[0])


def computed_in(case: Case) -> str:
    """Return the dtype in which a function computes with arrays of float16."""
    found = [dtype for dtype, names in COMPUTED_IN.items() if case.name in names]
    return (found or ["float64" if "." in case.qualified_name else "float32"])[0]


def kinds_of(result: Any) -> str:
    """Return the words for the types of results, each once."""
    results = result if isinstance(result, tuple) else (result,)

    def word_of(x: Any) -> str:
        module, name = type(x).__module__.partition(".")[0], type(x).__name__
        if module == "dask":
            return f"Dask {name.lower() if name == 'Array' else name}"
        if module == "torch":
            return "tensor"
        return "number" if not np.ndim(x) else "array" if module == "numpy" else name

    return ", ".join(dict.fromkeys(map(word_of, results)))


def result_kinds(case: Case, kind: str) -> str:
    """Return the words for the results of a call of a kind of arrays; a dash if it is refused."""
    columns = {}
    if kind.endswith("DataFrame"):
        make = {"DataFrame": lambda x: x[:, None], LAZY_TABLE: dask_data_frame}[kind]
        steps = [key for key, x in case.others.items() if isinstance(x, list) and len(x) == len(X)]
        columns = {key: make(np.array(case.others[key])) for key in steps}
    try:
        return kinds_of(case.call(KINDS[kind], **columns))
    except (TypeError, ValueError):
        return "–"


def default_axis(case: Case) -> str:
    parameters = inspect.signature(case.function).parameters
    if "axes" in parameters:
        return "all" if parameters["axes"].default is None else "last two"
    if "axis" not in parameters:
        return {"sor": "last two", "smith_waterman": "the only one", "spline_filter": "all"}[case.name]
    assert parameters["axis"].default == -1
    of_models = "." in case.qualified_name and case.qualified_name != "hmm.sample"
    has_vectors = of_models or case.name == "solve_block_tridiagonal"
    return "last but that of vectors" if has_vectors else "last; index"


def reference_of(case: Case) -> str:
    """Return the role that links to a function."""
    return f"{{func}}`~mgrec.{case.path}`"


def row_of(case: Case, kinds: Any) -> list[str]:
    """Return the cells of a function, with those of `kinds` from calls."""
    from mgrec.xarray import DatasetMethods

    is_mapped = case.name not in NOT_MAPPED and "." not in case.qualified_name
    of_variables = "by `map`" if is_mapped else "–"
    return [
        reference_of(case),
        default_axis(case),
        *(result_kinds(case, kind) for kind in kinds),
        "by `.mgrec`" if hasattr(DatasetMethods, case.qualified_name) else of_variables,
        f"{computed_in(case)}, {dtype_of(case, OF_FLOAT16, 'float32')}",
        dtype_of(case, OF_BOOL, "float64"),
    ]


if __name__ == "__main__":
    for cells in (HEADER, ["---"] * len(HEADER), *(row_of(case, KINDS) for case in CASES)):
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()

"""What a user may write by mistake: a type checker finds an error in every line with "# wrong"."""

import dask.array as da
import numpy as np

import mgrec
from mgrec import hmm, statespace
from mgrec.signal import ewm, filtfilt, lfilter

x = np.ones(5)


def mistaken(a: da.Array) -> None:
    """Every call here is wrong."""
    mgrec.linear_recurrence(0.5, x, memory="nonsense")  # wrong
    mgrec.linear_recurrence(0.5, a, memory="nonsense")  # wrong
    mgrec.linear_recurrence(0.5, x, axis=1.5)  # wrong
    mgrec.linear_recurrence(0.5, x, revers=True)  # wrong
    mgrec.linear_recurrence(0.5, {1.0})  # wrong
    mgrec.linear_recurrence(0.5, x, out=[0.0])  # wrong
    mgrec.linear_recurrence(0.5, x).rechunk(3)  # wrong
    mgrec.linear_recurrence(0.5, a).tolist()  # wrong
    mgrec.scan("max_plus", x, initial=0.0)  # wrong
    mgrec.solve_tridiagonal(x, x, x, x, method="gauss")  # wrong
    mgrec.weighted_scan(x, 0.5, operators=("+", "min"))  # wrong
    mgrec.wavefront(x, weights=(1, 1))  # wrong
    mgrec.smith_waterman("A", "B", match=1, mismatch=0, gap=-1, mode="glocal")  # wrong
    mgrec.dask.prgress(a)  # wrong
    filtfilt([1.0], [1.0], x, padtype="none")  # wrong
    lfilter([1.0], [1.0], x).mean_of()  # wrong
    ewm(x, spam=3)  # wrong
    hmm.viterbi(x, x, x).states.rechunk(3)  # wrong
    hmm.forward_backward(x, x, a, dim=[0], axis=1.5)  # wrong
    statespace.sample(x, x, a, a, initial_state=x).states.tolist()  # wrong

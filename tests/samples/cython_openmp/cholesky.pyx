# cython: language_level=3, boundscheck=False, wraparound=False
"""Cholesky factors of many matrices, several at a time."""

from cython.parallel cimport prange
from scipy.linalg.cython_lapack cimport dpotrf

cdef extern from "witness.h" nogil:
    void start_witness(const char *main_stack)
    void meet(int matrix)


cdef void factor(double *matrix, int size) noexcept nogil:
    cdef int info = 0
    # SciPy 1.10 does not say that LAPACK raises nothing, so Cython 3 asks after the call, and takes the GIL for that
    dpotrf(b"L", &size, matrix, &size, &info)


cdef void factor_all(double[:, :, ::1] matrices, int threads) noexcept nogil:
    cdef int i, count = <int>matrices.shape[0], size = <int>matrices.shape[1]
    for i in prange(count, num_threads=threads, schedule="static", chunksize=1):
        meet(i)
        factor(&matrices[i, 0, 0], size)


def factor_batch(double[:, :, ::1] matrices, int threads):
    """Replace each matrix by its factor."""
    # the mistake: `nogil` in a declaration means that the GIL is not needed, not that it is released
    factor_all(matrices, threads)


def tell(const char *main_stack):
    """Let a thread tell of this program as soon as it hangs.

    :param main_stack: the Python frames of the main thread by then, as JSON; must stay alive.
    """
    start_witness(main_stack)

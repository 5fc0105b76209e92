"""Factors a batch of matrices with cholesky.pyx, and hangs.

Prints one JSON line about itself, see tests/support/samples.py.
"""

import json
import os
import sys
from types import FrameType
from typing import Iterator

# OpenBLAS would start threads of its own
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import cholesky  # type: ignore[import-not-found]
import numpy  # type: ignore[import-not-found]

THREADS = 4


def stack(frame: "FrameType | None") -> "Iterator[tuple[str, str, int]]":
    """Function, file and line of every Python frame, innermost first."""
    while frame is not None:
        yield frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def announced(matrices: "numpy.ndarray") -> "numpy.ndarray":
    """Let the witness describe the caller; called for an argument, so the caller is at the line of the hanging call."""
    announced.stack = json.dumps(list(stack(sys._getframe(1)))).encode()  # type: ignore[attr-defined]
    cholesky.tell(announced.stack)  # type: ignore[attr-defined]
    return matrices


def solve(batch: "numpy.ndarray") -> "numpy.ndarray":
    cholesky.factor_batch(announced(batch), THREADS)
    return batch


def main() -> None:
    sys.setswitchinterval(1000)  # a thread waiting for the GIL sleeps on
    matrices = numpy.stack([numpy.diag(numpy.arange(1.0, 9.0)) + 0.1 for _ in range(THREADS)])
    print(solve(matrices).trace(), file=sys.stderr)


if __name__ == "__main__":
    main()

"""The initialiser of a ProcessPoolExecutor waits for a token that the parent never sends.

Truth: {"expect": "hang", "says": "initializer|connect|pool|child|worker", "statuses": [1, 5]}
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor


def connect(tokens):
    tokens.get()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    tokens = context.SimpleQueue()
    pool = ProcessPoolExecutor(2, context, connect, (tokens,))
    call = pool.submit(abs, 1)
    print('{"pid": %d}' % os.getpid(), flush=True)
    call.result()

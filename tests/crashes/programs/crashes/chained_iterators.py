"""Iterators that are nested so deeply that the interpreter's own functions use up the stack.

Truth: {"says": ["SIGSEGV", "the stack is used up", "recursion: at least [\\d,]+ native frames; at least [\\d,]+ times", "first at"], "python": ["debian", "3.13"]}
"""

import itertools


def chained(count):
    iterator = iter([1])
    for _ in range(count):
        iterator = itertools.chain(iterator)
    return iterator


def first(iterator):
    return next(iterator)


first(chained(300000))

"""Python code calls itself until the stack of the main thread is used up.

Truth: {"says": ["SIGSEGV", "stack is used up", "walk", "recursion"], "python": ["debian", "3.9"]}
"""

import sys

sys.setrecursionlimit(10**9)


class Tree:
    def __repr__(self):
        return walk(self)


def walk(tree):
    return repr(tree)


def render_page(tree):
    return walk(tree)


render_page(Tree())

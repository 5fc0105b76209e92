"""A script calls abort() by ctypes: nothing of the call is damaged.

Truth: {"says": ["SIGABRT", "called abort\\(\\)", "give_up"], "never": "damaged|kept alive", "python": ["debian", "3.14t"]}
"""

import ctypes


def give_up():
    ctypes.CDLL(None).abort()


give_up()

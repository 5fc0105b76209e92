"""A program that sends a signal to itself.

Truth: {"says": ["SIGSEGV", "the program sent itself SIGSEGV", "stop at"], "never": "not at fault|by another thread"}
"""

import os
import signal


def stop():
    os.kill(os.getpid(), signal.SIGSEGV)


stop()

"""A thread of C++ dies in a pool that a Python function has started and waits for.

Truth: {"says": ["SIGSEGV", "in encode", "run_pool.{0,90}called by transcode"]}
"""

import ctypes
import sys
import threading

lib = ctypes.CDLL(sys.argv[1])


def transcode(path):
    lib.run_pool(4)


t = threading.Thread(target=transcode, args=("a.mp4",), name="transcoder")
t.start()
t.join()

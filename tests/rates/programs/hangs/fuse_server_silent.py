"""The server of a FUSE file system does not answer; a thread waits in stat() of a file there. Needs root.

Truth: {"expect": "hang", "says": "fuse|file system|mount|stat", "statuses": [1, 5]}
"""

import ctypes
import os
import threading

libc = ctypes.CDLL(None)
os.mkdir("share")
CLONE_NEWNS, MS_PRIVATE_ALL = 0x20000, 0x44000
try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError:
    device = -1
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if (device < 0 or libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None)
        or libc.mount(b"share", b"share", b"fuse", 0, options)):
    print('{"skip": "needs /dev/fuse and a mount namespace"}', flush=True)
    raise SystemExit


def size(path):
    return os.stat(path).st_size


threading.Thread(target=size, args=("share/report.csv",), name="size", daemon=True).start()
print('{"pid": %d}' % os.getpid(), flush=True)
threading.Event().wait()

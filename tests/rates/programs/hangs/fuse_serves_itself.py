"""The only thread of a FUSE server asks for the size of a file below its own mount. Needs root.

Truth: {"expect": "hang", "says": "this process itself serves the file system", "statuses": [1]}
"""

import ctypes
import os

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
print('{"pid": %d}' % os.getpid(), flush=True)
os.stat("share/report.csv")

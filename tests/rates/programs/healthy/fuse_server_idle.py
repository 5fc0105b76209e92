"""A FUSE server without a request; a thread of it has asked for a file below its mount and ended. Needs root.

Truth: {"expect": "healthy"}
"""

import ctypes
import os
import struct
import threading

libc = ctypes.CDLL(None)
os.mkdir("share")
CLONE_NEWNS, MS_PRIVATE_ALL, INIT, ENOENT = 0x20000, 0x44000, 26, 2
try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError:
    device = -1
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if (device < 0 or libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None)
        or libc.mount(b"share", b"share", b"fuse", 0, options)):
    print('{"skip": "needs /dev/fuse and a mount namespace"}', flush=True)
    raise SystemExit


def answer(request):
    _, code, unique = struct.unpack_from("<IIQ", request)
    if code == INIT:
        data = struct.pack("<IIIIHHII", 7, 31, 0, 0, 12, 9, 1 << 12, 1) + bytes(36)
        os.write(device, struct.pack("<IiQ", 16 + len(data), 0, unique) + data)
    else:
        os.write(device, struct.pack("<IiQ", 16, -ENOENT, unique))


def ask():
    os.path.exists("share/report.csv")
    print('{"pid": %d}' % os.getpid(), flush=True)


threading.Thread(target=ask, name="client", daemon=True).start()
while True:
    answer(os.read(device, 1 << 20))

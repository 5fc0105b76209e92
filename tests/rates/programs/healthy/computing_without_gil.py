"""Two threads compute in a C function that releases the GIL; MainThread joins them.

Truth: {"expect": "healthy"}
"""

import hashlib
import os
import threading


def derive():
    while True:
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 10**6)


for n in range(2):
    threading.Thread(target=derive, name=f"derive-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)

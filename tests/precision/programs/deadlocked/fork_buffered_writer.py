"""python/cpython#84579: the child of fork writes to a file that a thread of the parent was writing to.

A `BufferedWriter` has a lock with an owner. The parent's thread is in `write`, because the pipe is full, while the
process forks; ansible/ansible#79539 is about the same.

Truth: {"expect": "deadlock", "standstill": true,
        "edges": [["main", "py-buffered-io|semaphore|py-lock|py-mutex", null]]}
"""

import os

from tests.precision.programs import scene

if __name__ == "__main__":
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, bytes(4096))
        except BlockingIOError:
            break
    os.set_blocking(writing, True)
    file = open(writing, "wb")  # noqa: SIM115  it lives as long as the process
    worker = scene.thread("worker", file.write, bytes(100000))
    tid = worker.native_id
    while True:
        with open(f"/proc/self/task/{tid}/syscall") as call:
            if call.read().split()[:2] == ["1", hex(writing)]:
                break
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        scene.ready()
        file.write(b"from the child")

"""Greenlets of a thread pool fork while another one starts a worker of the pool.

``alike``: a greenlet forks while another one has a lock that the program takes before each fork.
"""
import concurrent.futures.thread
import json
import os
import sys
import threading

before = threading.Lock()
if sys.argv[1:] == ["alike"]:
    os.register_at_fork(before=before.acquire)

from gevent import monkey

monkey.patch_all()
import gevent


def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def hold():
    with before:
        gevent.sleep(0.2)
        fork()


print(json.dumps({"pid": os.getpid()}), flush=True)
if sys.argv[1:] == ["alike"]:
    gevent.spawn(hold).join()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for call in [pool.submit(fork) for _ in range(4)]:
        call.result()

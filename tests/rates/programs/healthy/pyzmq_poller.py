"""A poller of pyzmq with a timeout of ten seconds, and a PULL socket that gets a message from time to time.

Truth: {"expect": "healthy", "packages": ["zmq"]}
"""

import os
import threading
import time

import zmq

context = zmq.Context()
pull = context.socket(zmq.PULL)
pull.bind("inproc://work")


def push():
    own = context.socket(zmq.PUSH)
    own.connect("inproc://work")
    while True:
        own.send(b"job")
        time.sleep(1)


threading.Thread(target=push, name="push", daemon=True).start()
poller = zmq.Poller()
poller.register(pull, zmq.POLLIN)
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    for each, _ in poller.poll(10000):
        each.recv()

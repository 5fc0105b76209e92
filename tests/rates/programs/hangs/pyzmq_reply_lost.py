"""A REQ socket of pyzmq waits for the reply of a REP socket in the same process, whose thread ended with an error.

Truth: {"expect": "hang", "says": "zmq|recv|request", "statuses": [1, 5], "packages": ["zmq"]}
"""

import os
import threading

import zmq

context = zmq.Context()
server = context.socket(zmq.REP)
server.bind("inproc://service")


def serve():
    server.recv()
    raise SystemExit


def request():
    client = context.socket(zmq.REQ)
    client.connect("inproc://service")
    client.send(b"question")
    client.recv()


threading.Thread(target=serve, name="service").start()
print('{"pid": %d}' % os.getpid(), flush=True)
request()

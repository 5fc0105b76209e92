"""Context.term() of pyzmq waits for a socket that is still open, with a message for a peer which does not exist.

After zeromq/pyzmq#537.

Truth: {"expect": "hang", "says": "zmq|term", "statuses": [1, 5], "packages": ["zmq"]}
"""

import os

import zmq

context = zmq.Context()
socket = context.socket(zmq.REQ)
socket.connect("tcp://127.0.0.1:9")
socket.send(b"job")
print('{"pid": %d}' % os.getpid(), flush=True)
context.term()

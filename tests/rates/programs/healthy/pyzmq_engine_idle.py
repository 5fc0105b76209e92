"""A worker and the scheduler from which it takes requests, which waits for requests of a front: three processes at rest.

Truth: {"expect": "healthy", "packages": ["zmq"]}
"""

import os
import subprocess
import sys
import tempfile

import zmq

context = zmq.Context()


def scheduler(folder):
    front, worker = context.socket(zmq.REP), context.socket(zmq.DEALER)
    front.bind(f"ipc://{folder}/front")
    worker.bind(f"ipc://{folder}/worker")
    while True:
        request = front.recv()
        worker.send(request)
        front.send(worker.recv())


def front(folder):
    requests = context.socket(zmq.REQ)
    requests.connect(f"ipc://{folder}/front")
    requests.send(b"warm up")
    requests.recv()
    print(flush=True)
    sys.stdin.read()  # clients


if len(sys.argv) > 1:
    globals()[sys.argv[1]](sys.argv[2])
folder = tempfile.mkdtemp()
subprocess.Popen([sys.executable, __file__, "scheduler", folder])
child = subprocess.Popen([sys.executable, __file__, "front", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
requests = context.socket(zmq.DEALER)
requests.connect(f"ipc://{folder}/worker")
requests.send(requests.recv())
child.stdout.readline()
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    request = requests.recv()
    requests.send(request)

"""A front waits for a scheduler, and that for the answer of a worker, which waits for its next message: three processes.

Truth: {"expect": "hang", "says": "process .* wait for each other", "statuses": [1, 5], "packages": ["zmq"]}
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
        worker.send(front.recv())
        front.send(worker.recv())


def worker(folder):
    requests = context.socket(zmq.DEALER)
    requests.connect(f"ipc://{folder}/worker")
    while True:
        requests.recv()
        print(flush=True)  # it has taken the request, and sends no answer


if len(sys.argv) > 1:
    globals()[sys.argv[1]](sys.argv[2])
folder = tempfile.mkdtemp()
subprocess.Popen([sys.executable, __file__, "scheduler", folder])
child = subprocess.Popen([sys.executable, __file__, "worker", folder], stdout=subprocess.PIPE)
requests = context.socket(zmq.REQ)
requests.connect(f"ipc://{folder}/front")
requests.send(b"question")
child.stdout.readline()
print('{"pid": %d}' % os.getpid(), flush=True)
requests.recv()

"""A gRPC server without a client.

Truth: {"expect": "healthy", "packages": ["grpc"]}
"""

import os
from concurrent.futures import ThreadPoolExecutor

import grpc

server = grpc.server(ThreadPoolExecutor(4))
server.add_insecure_port("127.0.0.1:0")
server.start()
print('{"pid": %d}' % os.getpid(), flush=True)
server.wait_for_termination()

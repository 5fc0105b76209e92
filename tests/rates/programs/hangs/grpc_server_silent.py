"""A gRPC call without a deadline, to a server whose handler waits for an Event that nobody sets.

Truth: {"expect": "hang", "says": "grpc|call|ask|process \\d+|127\\.0\\.0\\.1", "statuses": [1, 5], "packages": ["grpc"]}
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

reading, writing = os.pipe()
if os.fork() == 0:
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: threading.Event().wait())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("app.App", {"Ask": handler}),))
    os.write(writing, str(server.add_insecure_port("127.0.0.1:0")).encode())
    server.start()
    server.wait_for_termination()
port = int(os.read(reading, 10))


def ask():
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return channel.unary_unary("/app.App/Ask", None, None)(b"")


print('{"pid": %d}' % os.getpid(), flush=True)
ask()

"""The only worker of a gRPC server runs a handler that calls its own server.

Truth: {"expect": "hang", "says": "pool|worker|handler|outer|grpc", "statuses": [1, 5], "packages": ["grpc"]}
"""

import os
from concurrent.futures import ThreadPoolExecutor

import grpc


def call(method):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return channel.unary_unary(f"/app.App/{method}", None, None)(b"")


def outer(request, context):
    return call("inner")


def inner(request, context):
    return b"done"


server = grpc.server(ThreadPoolExecutor(1))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("app.App", {
    function.__name__: grpc.unary_unary_rpc_method_handler(function) for function in (outer, inner)}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print('{"pid": %d}' % os.getpid(), flush=True)
call("outer")

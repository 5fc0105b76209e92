"""grpc/grpc#38020, without the fork: a gRPC server and its clients in one process, with the threads of the C++ core.

Truth: {"expect": "healthy", "packages": ["grpc"], "pythons": ["3.11"]}
"""

import concurrent.futures

import grpc  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import scene


def echo(request: bytes, context: object) -> bytes:
    return request


def ask(port: int) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/echo.Echo/Say", request_serializer=None, response_deserializer=None)
        while not scene.stopping.is_set():
            assert call(b"hello") == b"hello"


if __name__ == "__main__":
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    methods = {"Say": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo.Echo", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    threads = [scene.thread(f"client-{number}", ask, port) for number in range(3)]
    with scene.until_told():
        scene.ready()
        server.wait_for_termination()
    for thread in threads:
        thread.join()
    server.stop(None).wait()

"""Threads that wait for each other's locks (abba), or for work and for a client (healthy), in the emulated machine."""

import os
import queue
import socket
import sys
import threading

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)
work: "queue.Queue[int]" = queue.Queue()


def ship() -> None:
    with first:
        both.wait()
        with second:
            pass


def refill() -> None:
    with second:
        both.wait()
        with first:
            pass


def serve() -> None:
    while True:
        work.get()


functions = (ship, refill) if sys.argv[1] == "abba" else (serve, serve)
threads = [threading.Thread(target=function, name=function.__name__) for function in functions]
for thread in threads:
    thread.start()
os.write(1, b"started\n")
if sys.argv[1] == "healthy":
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("/tmp/arm64_threads")
        server.listen()
        server.accept()
for thread in threads:
    thread.join()

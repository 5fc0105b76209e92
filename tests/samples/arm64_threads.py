"""Threads that wait for each other's locks (abba), or for work (healthy), in the emulated machine."""

import os
import queue
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
for thread in threads:
    thread.join()

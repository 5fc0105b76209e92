"""bpo-8410: two threads that take turns, with events and with a condition.

Truth: {"expect": "healthy"}
"""

import threading

from tests.precision.programs import scene

ping, pong = threading.Event(), threading.Event()
turn = threading.Condition()
number = 0


def events(own: threading.Event, other: threading.Event) -> None:
    while not scene.stopping.is_set():
        own.wait()
        own.clear()
        other.set()


def conditions(mine: int) -> None:
    global number
    while not scene.stopping.is_set():
        with turn:
            while number % 3 != mine and not scene.stopping.is_set():
                turn.wait()
            number += 1
            turn.notify_all()


if __name__ == "__main__":
    threads = [scene.thread("ping", events, ping, pong), scene.thread("pong", events, pong, ping)]
    threads += [scene.thread(f"turn-{mine}", conditions, mine) for mine in range(3)]
    ping.set()
    scene.ready()
    threads[0].join()
    ping.set()
    with turn:
        turn.notify_all()

"""dbt-labs/dbt-core#5602, as it should be: stages of a pipeline joined by short queues, now full, now empty.

Truth: {"expect": "healthy", "pythons": ["3.9", "3.11", "3.12", "3.13"]}
"""

import queue

from tests.precision.programs import scene

stages: "list[queue.Queue[int]]" = [queue.Queue(2) for _ in range(4)]


def work(number: int) -> None:
    while True:
        item = stages[number].get()
        if number + 1 < len(stages):
            stages[number + 1].put(item)
        stages[number].task_done()


if __name__ == "__main__":
    for number in range(len(stages)):
        for copy in (1, 2):
            scene.thread(f"stage-{number}-{copy}", work, number)
    scene.ready()
    while not scene.stopping.is_set():
        for item in range(20):
            stages[0].put(item)
        for stage in stages:
            stage.join()

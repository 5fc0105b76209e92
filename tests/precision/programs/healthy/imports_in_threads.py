"""bpo-9260: threads that import the same and other modules at the same time, over and over.

Truth: {"expect": "healthy"}
"""

import importlib
import sys

from tests.precision.programs import scene

NAMES = ("json.decoder", "json", "csv", "email.message", "email", "html.parser", "xml.dom.minidom", "decimal", "wave",
         "configparser", "difflib", "argparse", "calendar", "gettext", "plistlib")


def work(number: int) -> None:
    while not scene.stopping.is_set():
        for name in NAMES[number:] + NAMES[:number]:
            sys.modules.pop(name, None)
            try:
                importlib.import_module(name)
            except Exception:
                pass  # another thread has taken away meanwhile what it takes


if __name__ == "__main__":
    threads = [scene.thread(f"thread-{number}", work, number) for number in range(5)]
    scene.ready()
    for thread in threads:
        thread.join()

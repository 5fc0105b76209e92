"""A child fills its pipe for errors, which its parent reads only after the end of the output.

The documentation of subprocess warns of it.

After google/turbinia#945.

Truth: {"expect": "hang", "says": "pipe.*(full|write|stderr|child)|child.*pipe", "statuses": [1]}
"""

import os
import subprocess
import sys

CHILD = "import sys; sys.stderr.write('x' * 300000); print('done')"


def run_tool():
    tool = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    print('{"pid": %d}' % os.getpid(), flush=True)
    tool.stdout.read()
    tool.wait()


run_tool()

"""pyarrow reads a CSV file from a pipe whose write end the program itself keeps open.

Truth: {"expect": "hang", "says": "pipe", "statuses": [1, 5], "packages": ["pyarrow"]}
"""

import os

import pyarrow
import pyarrow.csv

reading, writing = os.pipe()
os.write(writing, b"a,b\n1,2\n")
print('{"pid": %d}' % os.getpid(), flush=True)
pyarrow.csv.read_csv(pyarrow.PythonFile(open(reading, "rb")))

"""Four threads share two connections of SQLAlchemy's QueuePool and hold them for a moment.

Truth: {"expect": "healthy", "packages": ["sqlalchemy"]}
"""

import os
import threading
import time

from sqlalchemy import create_engine, text
from sqlalchemy.pool import QueuePool

engine = create_engine("sqlite:///app.db", poolclass=QueuePool, pool_size=2, max_overflow=0)


def work():
    while True:
        with engine.connect() as connection:
            connection.execute(text("select 1"))
            time.sleep(0.005)


for n in range(4):
    threading.Thread(target=work, name=f"worker-{n}").start()
print('{"pid": %d}' % os.getpid(), flush=True)

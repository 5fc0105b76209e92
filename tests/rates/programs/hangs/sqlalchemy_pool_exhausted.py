"""SQLAlchemy's QueuePool without overflow: the request that holds the only connection asks for a second one.

After ckan/ckan#5863, with a timeout of hours in place of 30 s.

Truth: {"expect": "hang", "says": "pool|queue|handle", "statuses": [1, 5], "packages": ["sqlalchemy"], "core": true}
"""

import os

from sqlalchemy import create_engine, text
from sqlalchemy.pool import QueuePool

engine = create_engine("sqlite:///app.db", poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=20000)


def audit():
    with engine.begin() as connection:
        connection.execute(text("select 1"))


def handle():
    with engine.begin() as connection:
        connection.execute(text("select 1"))
        audit()


print('{"pid": %d}' % os.getpid(), flush=True)
handle()

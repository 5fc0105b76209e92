"""Functions of packages that wait until a connection of a pool is free: the only table of them.

Sources: httpcore 1.0 httpcore/_sync/connection_pool.py, aiohttp 3.14 aiohttp/connector.py, SQLAlchemy 2.1
sqlalchemy/pool/impl.py, psycopg_pool 3.3 psycopg_pool/pool.py, asyncpg 0.31 asyncpg/pool.py, urllib3 2.8
urllib3/connectionpool.py, redis 8.1 redis/connection.py, PyMongo 4.16 pymongo/pool.py, aiomysql 0.3 aiomysql/pool.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdbext.model.frames import Frame, PyFrame, library_of

#: The packages by function.
_WAITS: Mapping[str, tuple[str, ...]] = {
    "_acquire": ("aiomysql", "aiopg", "asyncpg"), "_acquire_impl": ("asyncpg",), "_checkout": ("pymongo",),
    "_do_get": ("sqlalchemy",), "_get_conn": ("pymongo", "urllib3"),
    "_wait_for_available_connection": ("aiohttp",), "get_connection": ("redis",), "getconn": ("psycopg_pool",),
    "wait_for_connection": ("httpcore",),
}


def pool_of(stack: Sequence[Frame]) -> str | None:
    """The package with a pool of connections, in a function of which the program waits for a free one; else None.

    It waits there for a connection only if it waits for another thread or task: such functions connect, too.
    """
    for frame in stack:
        if isinstance(frame, PyFrame):
            package = library_of(frame)
            if package is None:
                return None
            if package in _WAITS.get(frame.function, ()):
                return package
    return None

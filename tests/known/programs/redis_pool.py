"""The garbage collector finds a subscription while the pool of connections is locked.

``alike``: the program locks the pool itself and calls it.
"""
import gc
import json
import os
import sys

import redis


class Connection(redis.Connection):
    """One that needs no server. It is made while the pool is locked."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        gc.collect()

    def connect(self):
        pass

    def can_read(self, timeout=0):
        return False

    def send_command(self, *arguments, **options):
        pass

    def read_response(self, *arguments, **options):
        return b"1"

    def disconnect(self, *arguments):
        pass


gc.disable()
pool = redis.ConnectionPool(connection_class=Connection)
client = redis.Redis(connection_pool=pool)
print(json.dumps({"pid": os.getpid()}), flush=True)
if sys.argv[1:] == ["alike"]:
    with pool._lock:
        client.get("name")
subscription = client.pubsub()
subscription.connection = pool.get_connection("subscribe")
subscription.itself = subscription
del subscription
client.get("name")

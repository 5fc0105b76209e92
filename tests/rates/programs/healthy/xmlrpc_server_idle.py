"""A server of xmlrpc with a client that keeps its connection and calls it every minute.

Truth: {"expect": "healthy"}
"""

import os
import threading
import time
import xmlrpc.client
import xmlrpc.server

server = xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
server.register_function(abs)
threading.Thread(target=server.serve_forever, name="server", daemon=True).start()
client = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{server.server_address[1]}")
client.abs(-1)
print('{"pid": %d}' % os.getpid(), flush=True)
while True:
    time.sleep(60)
    client.abs(-1)

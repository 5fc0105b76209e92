"""An asyncio program copies the lines of a child, which is a server at rest.

Truth: {"expect": "healthy"}
"""

import asyncio
import os
import sys

CODE = "import http.server; http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler).serve_forever()"


async def main():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CODE, stdout=asyncio.subprocess.PIPE)
    await asyncio.sleep(0.3)
    print('{"pid": %d}' % os.getpid(), flush=True)
    async for line in child.stdout:
        print(line)


asyncio.run(main())

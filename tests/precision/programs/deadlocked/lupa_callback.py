"""scoder/lupa#250: Lua calls Python, which waits for a thread that needs the Lua runtime, and so its lock.

The lock is a FastRLock that compiled code has taken. In the report the second thread frees a Lua object; here it runs
Lua while it has a lock of the program.

Truth: {"expect": "deadlock", "packages": ["lupa"], "pythons": ["3.11"], "behind": ["main"],
        "waits": [["main", "thread-exit|py-lock", "lua"]],
        "edges": [["lua", "py-lock", "writer"], ["writer", "py-fast-rlock", "lua"]]}
"""

import lupa  # type: ignore[import-not-found,import-untyped,unused-ignore]

from tests.precision.programs import ledger, scene

if __name__ == "__main__":
    runtime = lupa.LuaRuntime()
    runtime.globals().callback = ledger.called_back
    lua = scene.thread("lua", runtime.execute, "callback()")
    scene.thread("writer", ledger.write, lambda: runtime.execute("x = 1"))
    scene.ready()
    lua.join()

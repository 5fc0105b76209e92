"""Tasks of asyncio with their event loops, and greenlets: what each of them runs, waits for and holds."""

"""What is wrong: the wait-for graph, standstills, what a second snapshot confirms, tasks of asyncio."""

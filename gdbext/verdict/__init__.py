"""What is wrong: the wait-for graph, cycles of tasks, standstills, what a second snapshot confirms. Pure."""

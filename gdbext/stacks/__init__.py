"""Python and native frames as one stack, the boundaries between languages, recursion."""

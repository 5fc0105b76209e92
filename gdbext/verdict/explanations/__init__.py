"""Explanations of what a process does, by what explains it. Each is a function from a scene to a verdict, or None."""

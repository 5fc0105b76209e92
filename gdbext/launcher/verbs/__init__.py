"""The verbs of the console script, one module each."""

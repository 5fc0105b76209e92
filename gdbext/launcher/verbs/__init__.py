"""The verbs of the console script, a module for each."""

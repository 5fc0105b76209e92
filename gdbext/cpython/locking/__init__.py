"""Locks of Python: their objects, those that threads wait for or have acquired, and their names in the program."""

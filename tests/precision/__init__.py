"""How often gdbext is right: programs after public reports of hangs, and the score of its answers."""

"""How often gdbext is right: programs after public reports of hangs, and the score of what it says of them."""

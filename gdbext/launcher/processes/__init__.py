"""Several processes of one machine: their tree, what they share, and their waits for each other."""

"""Several processes of one machine: their tree, what they share, and who waits for whom across them."""

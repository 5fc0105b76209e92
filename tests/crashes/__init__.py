"""Programs that crash, each with the words that the first lines of a report must and must not contain."""

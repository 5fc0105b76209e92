"""Locks and waits as memory shows them, and what those who find them are given."""

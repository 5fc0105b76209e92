"""Waits and deadlocks across processes: a function of their reports and of one sample of what /proc shows."""

"""Pools of `concurrent.futures` and of `multiprocessing.pool`."""

"""Greenlets: their states and frames, and what wakes those of gevent and eventlet."""

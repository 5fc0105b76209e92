"""Holders of locks: recorded, derived or inferred; and candidates."""

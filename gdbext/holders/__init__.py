"""Which threads hold a lock: recorded, derived, inferred; and candidates."""

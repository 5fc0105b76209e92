"""Decoders of musl's locks and thread descriptors. Their structures are the same in all releases since 1.1.11."""

"""A report as a JSON document, schema gdbext/1."""

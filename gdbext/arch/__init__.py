"""All that knows a processor, a package for each."""

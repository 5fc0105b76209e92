"""The data-flow analysis of one function: its state at each place, and the summary that its callers use."""

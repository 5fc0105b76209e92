"""The console script `gdbext`: takes snapshots of processes and cores, and reports the results."""

"""The console script `gdbext`: starts GDBs that take snapshots of processes and cores, and reports the results."""

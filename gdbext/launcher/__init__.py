"""The console script `gdbext`: starts GDBs that look at processes and cores, and tells what they found."""

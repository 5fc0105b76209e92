"""The only reader of /proc: what the kernel shows of processes. One module for each subject."""

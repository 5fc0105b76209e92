"""What implements `Target` without a debugger: a process that runs on, and a core."""

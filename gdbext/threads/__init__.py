"""What each thread is: registers, system call, code at an address, Python thread state, what a handler interrupted."""

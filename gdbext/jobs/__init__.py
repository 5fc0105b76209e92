"""Jobs of several processes: which rank a process is, and which ranks others wait for."""

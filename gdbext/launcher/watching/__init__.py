"""Reports on programs that hang while nobody is there: in a test session, in a job, on a server."""

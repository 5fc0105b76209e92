"""Helpers shared by the tests: interpreters, samples, GDB sessions, cores and fakes. Contains no tests."""
